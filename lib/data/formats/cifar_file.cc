// The binary version of CIFAR-10 and CIFAR-100 (Krizhevsky,
// https://www.cs.toronto.edu/~kriz/cifar.html): one or two bytes of labels, then 3,072 bytes of a
// picture, a plane of 32 x 32 for red, green and blue each. The columns are image ([3, 32, 32] of
// uint8) and label; with two labels also coarse_label.
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <cstring>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/fixed_records.h"
#include "lib/data/formats/format_file.h"

namespace train::data {
namespace {

const std::vector<std::int64_t> kShape{3, 32, 32};
constexpr std::int64_t kImageBytes = std::int64_t{3} * 32 * 32;

std::shared_ptr<arrow::Schema> schema_of(int labels) {
  arrow::FieldVector fields{arrow::field("image", row_type(arrow::uint8(), kShape)),
                            arrow::field("label", arrow::uint8())};
  if (labels == 2) fields.push_back(arrow::field("coarse_label", arrow::uint8()));
  return arrow::schema(std::move(fields));
}

class CifarFile final : public FormatFile {
 public:
  CifarFile(FixedRecords records, int labels)
      : records_(std::move(records)), labels_(labels), schema_(schema_of(labels)) {}

  const std::vector<std::int64_t>& unit_rows() const override { return records_.unit_rows(); }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "part"; }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema&) const override {
    TRY(const auto bytes, records_.read(unit));
    return table_of(*bytes);
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
    TRY(const auto bytes, records_.read_rows(unit, rows));
    return table_of(*bytes);
  }

 private:
  Result<std::shared_ptr<arrow::Table>> table_of(const arrow::Buffer& bytes) const {
    // The label that people train on is the last byte before the picture.
    TRY(auto images, cut(bytes, labels_, kImageBytes));
    TRY(auto rows, as_rows(std::move(images), kShape));
    TRY(auto label, cut(bytes, labels_ - 1, 1));
    arrow::ArrayVector columns{std::move(rows), std::move(label)};
    if (labels_ == 2) {
      TRY(auto coarse, cut(bytes, 0, 1));
      columns.push_back(std::move(coarse));
    }
    return arrow::Table::Make(schema_, columns);
  }

  /// Return bytes [first, first + count) of each row.
  Result<std::shared_ptr<arrow::Array>> cut(const arrow::Buffer& rows, std::int64_t first,
                                            std::int64_t count) const {
    const std::int64_t row_count = rows.size() / records_.row_bytes();
    ARROW_TRY(std::shared_ptr<arrow::Buffer> values, "no memory for the rows",
              arrow::AllocateBuffer(row_count * count));
    for (std::int64_t row = 0; row < row_count; ++row)
      std::memcpy(values->mutable_data() + row * count,
                  rows.data() + row * records_.row_bytes() + first,
                  static_cast<std::size_t>(count));
    return arrow::MakeArray(
        arrow::ArrayData::Make(arrow::uint8(), row_count * count, {nullptr, std::move(values)}, 0));
  }

  FixedRecords records_;
  std::int64_t labels_;
  std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace

OpenedFile open_cifar_file(const DataFile& file, int labels) {
  ARROW_TRY(const std::int64_t size, fmt::format("cannot open {}", file.path), size_of(file));
  TRY(auto records, FixedRecords::make(file, 0, labels + kImageBytes, size));
  return std::make_unique<CifarFile>(std::move(records), labels);
}

}  // namespace train::data
