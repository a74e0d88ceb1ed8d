// A NumPy file holds one array, whose first dimension is the rows. They are the column "data", as
// in Ray Data.
#include <arrow/array.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/buffer.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <array>
#include <limits>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/fixed_records.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/formats/numpy_header.h"

namespace train::data {
namespace {

struct NumpyType {
  std::string_view kind;  // without the byte order
  std::shared_ptr<arrow::DataType> (*type)();
};
template <const std::shared_ptr<arrow::DataType>& (*F)()>
std::shared_ptr<arrow::DataType> of() {
  return F();
}
constexpr std::array kTypes{
    NumpyType{"b1", of<arrow::boolean>}, NumpyType{"i1", of<arrow::int8>},
    NumpyType{"i2", of<arrow::int16>},   NumpyType{"i4", of<arrow::int32>},
    NumpyType{"i8", of<arrow::int64>},   NumpyType{"u1", of<arrow::uint8>},
    NumpyType{"u2", of<arrow::uint16>},  NumpyType{"u4", of<arrow::uint32>},
    NumpyType{"u8", of<arrow::uint64>},  NumpyType{"f2", of<arrow::float16>},
    NumpyType{"f4", of<arrow::float32>}, NumpyType{"f8", of<arrow::float64>}};

Result<std::shared_ptr<arrow::DataType>> value_type(std::string_view type) {
  const bool native = type.starts_with('<') || type.starts_with('|') || type.starts_with('=');
  for (const NumpyType& known : kTypes) {
    if (native && type.substr(1) == known.kind) return known.type();
  }
  return Error{Errc::InvalidArgument, fmt::format("its type is {}", type),
               "bool, int, uint and float of this machine's byte order can be read"};
}

/// Return the bytes of a value, which are what a bool has in NumPy too.
std::int64_t width(const arrow::DataType& type) {
  return type.id() == arrow::Type::BOOL ? 1 : type.byte_width();
}

Result<std::shared_ptr<arrow::Array>> make_values(const std::shared_ptr<arrow::DataType>& type,
                                                  std::shared_ptr<arrow::Buffer> bytes) {
  const std::int64_t count = bytes->size() / width(*type);
  if (type->id() != arrow::Type::BOOL)
    return arrow::MakeArray(arrow::ArrayData::Make(type, count, {nullptr, std::move(bytes)}, 0));
  arrow::BooleanBuilder builder;
  if (const auto status = builder.AppendValues(bytes->data(), count); !status.ok())
    return error_from(status, "cannot lay the values out");
  ARROW_TRY(auto values, "cannot lay the values out", builder.Finish());
  return values;
}

class NumpyFile final : public FormatFile {
 public:
  NumpyFile(FixedRecords records, std::shared_ptr<arrow::DataType> value,
            std::vector<std::int64_t> shape)
      : records_(std::move(records)),
        value_(std::move(value)),
        shape_(std::move(shape)),
        schema_(arrow::schema({arrow::field("data", row_type(value_, shape_))})) {}

  const std::vector<std::int64_t>& unit_rows() const override { return records_.unit_rows(); }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "part"; }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema&) const override {
    TRY(auto bytes, records_.read(unit));
    return table_of(std::move(bytes));
  }
  std::int64_t decoded_bytes(const arrow::Schema&) const override {
    return records_.rows() * records_.row_bytes();
  }
  void expect(std::int64_t unit, const arrow::Schema&) const override { records_.expect(unit); }
  void expect_rows(std::int64_t unit, const std::vector<std::int64_t>& rows) const override {
    records_.expect_rows(unit, rows);
  }
  bool reads_rows() const override { return true; }
  Result<std::shared_ptr<arrow::Table>> read_rows(std::int64_t unit,
                                                  const std::vector<std::int64_t>& rows,
                                                  const arrow::Schema&) const override {
    TRY(auto bytes, records_.read_rows(unit, rows));
    return table_of(std::move(bytes));
  }

 private:
  Result<std::shared_ptr<arrow::Table>> table_of(std::shared_ptr<arrow::Buffer> bytes) const {
    TRY(auto values, make_values(value_, std::move(bytes)));
    TRY(auto rows, as_rows(std::move(values), shape_));
    return arrow::Table::Make(schema_, {std::move(rows)});
  }

  FixedRecords records_;
  std::shared_ptr<arrow::DataType> value_;
  std::vector<std::int64_t> shape_;  // of a row
  std::shared_ptr<arrow::Schema> schema_;
};

/// Return the bytes of a row of this shape.
Result<std::int64_t> row_bytes(const std::vector<std::int64_t>& shape, std::int64_t value_bytes) {
  std::int64_t bytes = value_bytes;
  for (const std::int64_t length : shape) {
    // A row is a list in Arrow, whose length has 31 bits.
    if (length == 0 || length > std::numeric_limits<std::int32_t>::max() ||
        __builtin_mul_overflow(bytes, length, &bytes) ||
        bytes > std::numeric_limits<std::int32_t>::max()) {
      return Error{Errc::InvalidArgument, "its rows are empty, or larger than 2 GiB"};
    }
  }
  return bytes;
}

OpenedFile open_array(const DataFile& file, const FileStart& start) {
  TRY(auto header, read_numpy_header(start.bytes));
  if (header.shape.empty())
    return Error{Errc::InvalidArgument, "it holds a single value and no rows"};
  TRY(auto value, value_type(header.type));
  const std::vector<std::int64_t> shape(header.shape.begin() + 1, header.shape.end());
  TRY(const std::int64_t bytes, row_bytes(shape, width(*value)));
  TRY(auto records, FixedRecords::make(file, header.values_at, bytes, start.size));
  if (records.rows() != header.shape.front()) {
    return Error{Errc::Corrupt, fmt::format("it holds {} rows, and its header says {}",
                                            records.rows(), header.shape.front())};
  }
  return std::make_unique<NumpyFile>(std::move(records), std::move(value), shape);
}

}  // namespace

OpenedFile open_numpy_file(const DataFile& file) {
  TRY(const auto start, read_start(file, static_cast<std::int64_t>(kNumpyHeaderMax)));
  auto opened = open_array(file, start);
  if (opened.has_error())
    return std::move(opened).error().with_context(fmt::format("cannot read {}", file.path));
  return opened;
}

}  // namespace train::data
