// A WebDataset archive (tar, which may be compressed). A row is a sample (tar_samples.h); its
// columns are the fields, by the endings of the members' names, and the key. A unit is a run of
// samples of about 2 MiB; a compressed archive is one unit.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/buffer.h>
#include <arrow/buffer_builder.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/utf8.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/formats/tar_samples.h"
#include "lib/data/formats/text_bytes.h"
#include "lib/data/formats/text_units.h"

namespace train::data {
namespace {

constexpr std::string_view kKey = "__key__";
// The fields that the webdataset package decodes as whole numbers and as texts.
constexpr std::array<std::string_view, 6> kNumbers{"cls", "cls2", "count", "id", "index", "inx"};
constexpr std::array<std::string_view, 4> kTexts{"txt", "text", "transcript", "json"};

template <class Names>
bool is_one_of(std::string_view name, const Names& names) {
  const std::string_view last = name.substr(name.rfind('.') + 1);  // of seg.cls: cls
  return std::find(names.begin(), names.end(), last) != names.end();
}

std::shared_ptr<arrow::DataType> type_of(std::string_view field) {
  if (field == kKey || is_one_of(field, kTexts)) return arrow::utf8();
  return is_one_of(field, kNumbers) ? arrow::int64() : arrow::binary();
}

struct TarUnit {
  std::int64_t offset = 0, length = 0, rows = 0;
};

Error in_sample(const TarSample& sample, const std::string& field, std::string what) {
  return Error{Errc::Corrupt, fmt::format("the sample {}: its .{} {}", sample.key, field, what)};
}

/// Fills one column, sample by sample.
class ColumnWriter {
 public:
  explicit ColumnWriter(std::string name) : name_(std::move(name)), type_(type_of(name_)) {}

  Result<Unit> add(const TarSample& sample, std::string_view unit) {
    if (name_ == kKey) return add_text(sample, sample.key);
    const TarField* field = sample.field(name_);
    if (field == nullptr) return in_sample(sample, name_, "is missing");
    if (field->content_at + field->size > static_cast<std::int64_t>(unit.size()))
      return in_sample(sample, name_, "is cut");
    const std::string_view content = unit.substr(static_cast<std::size_t>(field->content_at),
                                                 static_cast<std::size_t>(field->size));
    if (type_->id() == arrow::Type::INT64) return add_number(sample, content);
    if (type_->id() == arrow::Type::STRING) return add_text(sample, content);
    return added(bytes_.Append(content));
  }

  Result<std::shared_ptr<arrow::Array>> finish() {
    static constexpr std::string_view kDoing = "no memory for the rows";
    if (type_->id() == arrow::Type::INT64) {
      ARROW_TRY(auto numbers, kDoing, numbers_.Finish());
      return numbers;
    }
    ARROW_TRY(auto bytes, kDoing, bytes_.Finish());
    if (type_->id() == arrow::Type::BINARY) return bytes;
    ARROW_TRY(auto text, kDoing, bytes->View(type_));
    return text;
  }

 private:
  static Result<Unit> added(const arrow::Status& status) {
    if (!status.ok()) return error_from(status, "no memory for the rows");
    return Unit{};
  }

  Result<Unit> add_text(const TarSample& sample, std::string_view text) {
    arrow::util::InitializeUTF8();
    if (!arrow::util::ValidateUTF8(text)) return in_sample(sample, name_, "is no UTF-8");
    return added(bytes_.Append(text));
  }

  Result<Unit> add_number(const TarSample& sample, std::string_view text) {
    constexpr std::string_view kBlanks = " \t\r\n";
    const std::size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
    const std::size_t end = text.find_last_not_of(kBlanks) + 1;  // 0 if all are blanks
    const std::string_view number = text.substr(begin, std::max(begin, end) - begin);
    std::int64_t value = 0;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc() || stop != number.data() + number.size() || number.empty())
      return in_sample(sample, name_,
                       fmt::format("is '{}', no whole number", number.substr(0, 40)));
    return added(numbers_.Append(value));
  }

  std::string name_;
  std::shared_ptr<arrow::DataType> type_;
  arrow::BinaryBuilder bytes_;
  arrow::Int64Builder numbers_;
};

class WebDatasetFile final : public FormatFile {
 public:
  WebDatasetFile(DataFile file, std::vector<TarUnit> units, std::shared_ptr<arrow::Schema> schema)
      : file_(std::move(file)), units_(std::move(units)), schema_(std::move(schema)) {
    for (const TarUnit& unit : units_) unit_rows_.push_back(unit.rows);
  }

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "part"; }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    const TarUnit& at = units_[static_cast<std::size_t>(unit)];
    TRY(const auto buffer, TextBytes(file_).read(at.offset, at.length));
    const std::string_view bytes(*buffer);
    TRY(TarReader reader, TarReader::over(bytes));
    TarSamples samples(std::move(reader));
    std::vector<ColumnWriter> columns;
    for (const std::string& name : selected.field_names()) columns.emplace_back(name);
    while (true) {
      TRY(const auto sample, samples.next());
      if (!sample) break;
      for (ColumnWriter& column : columns) TRY_VOID(column.add(*sample, bytes));
    }
    arrow::ArrayVector arrays;
    for (ColumnWriter& column : columns) {
      TRY(auto array, column.finish());
      arrays.push_back(std::move(array));
    }
    return arrow::Table::Make(arrow::schema(selected.fields()), arrays);
  }

  void expect(std::int64_t unit, const arrow::Schema&) const override {
    const TarUnit& at = units_[static_cast<std::size_t>(unit)];
    TextBytes(file_).expect(at.offset, at.length);
  }

 private:
  DataFile file_;
  std::vector<TarUnit> units_;
  std::vector<std::int64_t> unit_rows_;
  std::shared_ptr<arrow::Schema> schema_;
};

std::shared_ptr<arrow::Schema> schema_of(const TarSample& sample) {
  arrow::FieldVector fields{arrow::field(std::string(kKey), type_of(kKey))};
  for (const TarField& field : sample.fields)
    fields.push_back(arrow::field(field.name, type_of(field.name)));
  return arrow::schema(std::move(fields));
}

/// Check that a sample has what is to be read: a gap would become a row without the value.
Result<Unit> check_fields(const TarSample& sample, const std::vector<std::string>& columns,
                          const arrow::Schema& schema) {
  for (const std::string& name : columns.empty() ? schema.field_names() : columns) {
    if (name != kKey && sample.field(name) == nullptr) return in_sample(sample, name, "is missing");
  }
  return Unit{};
}

/// Unpack a compressed archive, whose parts cannot be read on their own.
Result<std::shared_ptr<arrow::Buffer>> unpack(const TextBytes& archive) {
  arrow::BufferBuilder all;
  TRY_VOID(archive.read_all([&](std::string_view piece) -> Result<Unit> {
    if (all.length() + static_cast<std::int64_t>(piece.size()) > kTextUnitMax) {
      return Error{Errc::InvalidArgument, "it has over 1 GiB when it is unpacked",
                   "make several smaller archives"};
    }
    if (const auto status = all.Append(piece); !status.ok())
      return error_from(status, "no memory to unpack it");
    return Unit{};
  }));
  ARROW_TRY(auto bytes, "no memory to unpack it", all.Finish());
  return bytes;
}

OpenedFile open_archive(const DataFile& file, const std::vector<std::string>& columns) {
  const TextBytes archive(file);
  std::shared_ptr<arrow::Buffer> unpacked;
  if (archive.compressed()) {
    TRY(unpacked, unpack(archive));
  }
  TRY(TarReader reader,
      unpacked ? TarReader::over(std::string_view(*unpacked)) : TarReader::open(file));
  TarSamples samples(std::move(reader));
  auto schema = arrow::schema(arrow::FieldVector{});
  std::vector<TarUnit> units;
  while (true) {
    TRY(const auto sample, samples.next());
    if (!sample) break;
    if (units.empty()) schema = schema_of(*sample);
    // One without a column that no sample has is refused later, with the names of those that are.
    if (columns.empty() || !units.empty()) TRY_VOID(check_fields(*sample, columns, *schema));
    if (units.empty() || (!unpacked && units.back().length >= kUnitBytes))
      units.push_back({.offset = sample->begin});
    units.back().length = sample->end - units.back().offset;
    ++units.back().rows;
  }
  TRY_VOID(samples.check_end());
  return std::make_unique<WebDatasetFile>(file, std::move(units), std::move(schema));
}

}  // namespace

OpenedFile open_webdataset_file(const DataFile& file, const std::vector<std::string>& columns) {
  auto opened = open_archive(file, columns);
  if (opened.has_error())
    return std::move(opened).error().with_context(fmt::format("cannot read {}", file.path));
  return opened;
}

}  // namespace train::data
