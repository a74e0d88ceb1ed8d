// CSV (RFC 4180, with a line of names) and JSON lines (one object a line), parsed by Arrow. The
// types of the columns are those that the spec gives, and for the others those that Arrow infers
// from the first MiB of the dataset's first file. All later rows must fit them.
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/csv/api.h>
#include <arrow/io/memory.h>
#include <arrow/json/api.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/formats/text_bytes.h"
#include "lib/data/formats/text_units.h"
#include "lib/model/column_type.h"

namespace train::data {
namespace {

constexpr std::int64_t kSampleBytes = 1 << 20;
constexpr std::int64_t kHeaderMax = 1 << 20;

using Bytes = std::shared_ptr<arrow::Buffer>;

/// Parses stretches of one format's text.
class TextParser {
 public:
  virtual ~TextParser() = default;
  /// Return what cuts and counts this format's lines.
  virtual TextUnits units(std::int64_t unit_bytes, std::int64_t offset) const = 0;
  /// Return what to do where Arrow finds other rows than there are lines.
  virtual std::string_view one_row_a_line() const = 0;
  /// Parse rows. `types`: columns and their types; another column's type is inferred if `infer`,
  /// and the column is left out otherwise.
  virtual Result<std::shared_ptr<arrow::Table>> parse(const Bytes& text, const arrow::Schema& types,
                                                      bool infer) const = 0;
};

/// Return a block size that makes Arrow parse all of `text` at once.
std::int32_t whole(const Bytes& text) {
  return static_cast<std::int32_t>(std::max<std::int64_t>(text->size() + 1, 64));
}

class CsvParser final : public TextParser {
 public:
  CsvParser(char delimiter, bool newlines_in_values) {
    parsing_.delimiter = delimiter;
    parsing_.newlines_in_values = newlines_in_values;
  }

  TextUnits units(std::int64_t unit_bytes, std::int64_t offset) const override {
    return {parsing_.newlines_in_values ? TextUnits::Lines::Quoted : TextUnits::Lines::Plain,
            unit_bytes, offset, parsing_.delimiter};
  }
  std::string_view one_row_a_line() const override {
    return parsing_.newlines_in_values ? "lines must end in LF or CRLF"
                                       : "if values have ends of lines, set the dataset's "
                                         "`newlines_in_values`; other lines "
                                         "must end in LF or CRLF";
  }

  /// Take the names of the columns from the file's first line, and return them.
  Result<std::vector<std::string>> read_header(const Bytes& line) {
    TRY(const auto table, read(line, arrow::csv::ConvertOptions::Defaults()));
    if (table->num_rows() > 0) {
      return Error{Errc::InvalidArgument, "its first line has an end within",
                   "lines must end in LF or CRLF"};
    }
    names_ = table->schema()->field_names();
    return names_;
  }

  Result<std::shared_ptr<arrow::Table>> parse(const Bytes& text, const arrow::Schema& types,
                                              bool infer) const override {
    auto converting = arrow::csv::ConvertOptions::Defaults();
    for (const auto& field : types.fields()) converting.column_types[field->name()] = field->type();
    if (!infer) converting.include_columns = types.field_names();
    return read(text, converting);
  }

 private:
  Result<std::shared_ptr<arrow::Table>> read(const Bytes& text,
                                             const arrow::csv::ConvertOptions& converting) const {
    auto reading = arrow::csv::ReadOptions::Defaults();
    reading.use_threads = false;
    reading.block_size = whole(text);
    reading.column_names = names_;
    ARROW_TRY(const auto reader, "CSV",
              arrow::csv::TableReader::Make(arrow::io::default_io_context(),
                                            std::make_shared<arrow::io::BufferReader>(text),
                                            reading, parsing_, converting));
    ARROW_TRY(auto table, "CSV", reader->Read());
    return table;
  }

  arrow::csv::ParseOptions parsing_ = arrow::csv::ParseOptions::Defaults();
  std::vector<std::string> names_;  // empty: the text begins with them
};

class JsonParser final : public TextParser {
 public:
  TextUnits units(std::int64_t unit_bytes, std::int64_t offset) const override {
    return {TextUnits::Lines::Json, unit_bytes, offset};
  }
  std::string_view one_row_a_line() const override { return "write one object a line"; }

  Result<std::shared_ptr<arrow::Table>> parse(const Bytes& text, const arrow::Schema& types,
                                              bool infer) const override {
    auto reading = arrow::json::ReadOptions::Defaults();
    reading.use_threads = false;
    reading.block_size = whole(text);
    auto parsing = arrow::json::ParseOptions::Defaults();
    parsing.explicit_schema = arrow::schema(types.fields());
    parsing.unexpected_field_behavior = infer ? arrow::json::UnexpectedFieldBehavior::InferType
                                              : arrow::json::UnexpectedFieldBehavior::Ignore;
    ARROW_TRY(const auto reader, "JSON",
              arrow::json::TableReader::Make(arrow::default_memory_pool(),
                                             std::make_shared<arrow::io::BufferReader>(text),
                                             reading, parsing));
    ARROW_TRY(auto table, "JSON", reader->Read());
    return table;
  }
};

class TextFile final : public FormatFile {
 public:
  TextFile(TextBytes bytes, std::unique_ptr<TextParser> parser, std::vector<TextUnit> units,
           std::shared_ptr<arrow::Schema> schema)
      : bytes_(std::move(bytes)),
        parser_(std::move(parser)),
        units_(std::move(units)),
        schema_(std::move(schema)) {
    for (const TextUnit& unit : units_) unit_rows_.push_back(unit.rows);
  }

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "part"; }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    const TextUnit& at = units_[static_cast<std::size_t>(unit)];
    if (at.rows == 0) {
      ARROW_TRY(auto empty, "no rows", arrow::Table::MakeEmpty(arrow::schema(selected.fields())));
      return empty;
    }
    TRY(const auto text, bytes_.read(at.offset, at.length));
    auto table = parser_->parse(text, selected, /*infer=*/false);
    if (table.has_error()) {
      Error error =
          std::move(table).error().with_context(fmt::format("from byte {} on", at.offset));
      error.hint = "correct it, or give another type in the dataset's `schema`";
      return error;
    }
    if ((*table)->num_rows() != at.rows) {
      return Error{Errc::Corrupt,
                   fmt::format("from byte {} on, it has {} lines and {} rows", at.offset, at.rows,
                               (*table)->num_rows()),
                   std::string(parser_->one_row_a_line())};
    }
    return table;
  }

  void expect(std::int64_t unit, const arrow::Schema&) const override {
    const TextUnit& at = units_[static_cast<std::size_t>(unit)];
    bytes_.expect(at.offset, at.length);
  }

 private:
  TextBytes bytes_;
  std::unique_ptr<TextParser> parser_;
  std::vector<TextUnit> units_;
  std::vector<std::int64_t> unit_rows_;
  std::shared_ptr<arrow::Schema> schema_;
};

/// Return the columns whose types the spec gives.
Result<arrow::FieldVector> given_types(const FilesSpec& spec) {
  arrow::FieldVector fields;
  for (const auto& [name, type] : spec.types) {
    auto found = column_type(type);
    if (!found) {
      return Error{Errc::InvalidArgument,
                   fmt::format("schema.{}: there is no type '{}'", name, type),
                   fmt::format("write one of {}", fmt::join(kColumnTypes, ", "))};
    }
    fields.push_back(arrow::field(name, std::move(found)));
  }
  return fields;
}

/// Return the columns of the file's first rows. What is null in all of them becomes a text.
Result<std::shared_ptr<arrow::Schema>> infer_schema(const TextBytes& bytes,
                                                    const TextParser& parser,
                                                    const std::vector<TextUnit>& units,
                                                    const FilesSpec& spec) {
  TRY(auto given, given_types(spec));
  const auto first =
      std::find_if(units.begin(), units.end(), [](const TextUnit& unit) { return unit.rows > 0; });
  if (first == units.end()) return arrow::schema(std::move(given));
  TRY(auto text, bytes.read(first->offset, first->length));
  TextUnits sample = parser.units(kSampleBytes, first->offset);
  TRY_VOID(sample.add(std::string_view(*text)));
  TRY(const auto samples, sample.finish());
  text = arrow::SliceBuffer(text, 0, samples.front().length);
  TRY(const auto table, parser.parse(text, *arrow::schema(given), /*infer=*/true));
  arrow::FieldVector fields;
  for (const auto& field : table->schema()->fields()) {
    const bool unknown = field->type()->id() == arrow::Type::NA;
    fields.push_back(arrow::field(field->name(), unknown ? arrow::utf8() : field->type()));
  }
  return arrow::schema(std::move(fields));
}

/// Cut the text from `begin` on into units. A compressed text is one.
Result<std::vector<TextUnit>> find_units(const TextBytes& bytes, const TextParser& parser,
                                         std::int64_t begin) {
  TextUnits units = parser.units(bytes.compressed() ? kTextUnitMax + 1 : kUnitBytes, begin);
  std::int64_t skip = begin;
  TRY_VOID(bytes.read_all([&](std::string_view piece) {
    const auto skipped = std::min<std::int64_t>(skip, static_cast<std::int64_t>(piece.size()));
    skip -= skipped;
    return units.add(piece.substr(static_cast<std::size_t>(skipped)));
  }));
  return units.finish();
}

Error in_file(Error error, const std::string& path) {
  return std::move(error).with_context(fmt::format("cannot read {}", path));
}

/// Return the bytes of the first line that is not blank, from the file's beginning.
Result<std::int64_t> header_length(const TextBytes& bytes, const TextParser& parser) {
  TextUnits header = parser.units(1, 0);
  std::int64_t seen = 0, length = 0;
  bool found = false;
  // Ends the reading by an error, as there is no other way to stop it.
  const auto done = bytes.read_all([&](std::string_view piece) -> Result<Unit> {
    TRY_VOID(header.add(piece));
    seen += static_cast<std::int64_t>(piece.size());
    if (seen > kHeaderMax) return Error{Errc::Cancelled, "enough"};
    return Unit{};
  });
  if (done.has_error() && done.error().code != Errc::Cancelled) return done.error();
  TRY(const auto first_lines, header.finish());
  for (const TextUnit& line : first_lines) {
    length += line.length;
    if (line.rows == 0) continue;
    found = true;
    break;
  }
  if (!found) return Error{Errc::InvalidArgument, "it has no line of column names"};
  if (length > kHeaderMax) {
    return Error{Errc::InvalidArgument, "its first line is longer than 1 MiB",
                 "its first line must hold the names of the columns"};
  }
  return length;
}

Result<Unit> check_given_columns(const FilesSpec& spec, const std::vector<std::string>& names) {
  for (const auto& [name, type] : spec.types) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    return Error{Errc::NotFound,
                 fmt::format("it has no column '{}', only '{}'", name, fmt::join(names, "', '")),
                 "correct `schema` of the dataset"};
  }
  return Unit{};
}

char delimiter_of(const FilesSpec& spec, const std::string& path) {
  if (spec.delimiter != 0) return spec.delimiter;
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  return name.find(".tsv") == std::string_view::npos ? ',' : '\t';
}

OpenedFile open_csv(const DataFile& file, const FilesSpec& spec,
                    const std::shared_ptr<arrow::Schema>& first) {
  TextBytes bytes(file);
  auto parser = std::make_unique<CsvParser>(delimiter_of(spec, file.path), spec.newlines_in_values);
  TRY(const std::int64_t begin, header_length(bytes, *parser));
  TRY(const auto header, bytes.read(0, begin));
  // Arrow takes a line for one only if it has an end.
  TRY(const auto names, parser->read_header(arrow::Buffer::FromString(header->ToString() + "\n")));
  TRY_VOID(check_given_columns(spec, names));
  TRY(auto units, find_units(bytes, *parser, begin));
  TRY(auto inferred, infer_schema(bytes, *parser, units, spec));
  arrow::FieldVector fields;
  for (const std::string& name : names) {
    // The first file's types hold; a file without rows tells none.
    auto known = first ? first->GetFieldByName(name) : nullptr;
    if (!known) known = inferred->GetFieldByName(name);
    fields.push_back(known ? known : arrow::field(name, arrow::utf8()));
  }
  return std::make_unique<TextFile>(std::move(bytes), std::move(parser), std::move(units),
                                    arrow::schema(std::move(fields)));
}

OpenedFile open_json(const DataFile& file, const FilesSpec& spec,
                     const std::shared_ptr<arrow::Schema>& first) {
  TextBytes bytes(file);
  auto parser = std::make_unique<JsonParser>();
  TRY(auto units, find_units(bytes, *parser, 0));
  auto schema = first;
  if (!schema) {
    TRY(schema, infer_schema(bytes, *parser, units, spec));
  }
  return std::make_unique<TextFile>(std::move(bytes), std::move(parser), std::move(units),
                                    std::move(schema));
}

}  // namespace

OpenedFile open_csv_file(const DataFile& file, const FilesSpec& spec,
                         const std::shared_ptr<arrow::Schema>& first) {
  auto opened = open_csv(file, spec, first);
  if (opened.has_error()) return in_file(std::move(opened).error(), file.path);
  return opened;
}

OpenedFile open_json_file(const DataFile& file, const FilesSpec& spec,
                          const std::shared_ptr<arrow::Schema>& first) {
  auto opened = open_json(file, spec, first);
  if (opened.has_error()) return in_file(std::move(opened).error(), file.path);
  return opened;
}

std::shared_ptr<arrow::DataType> column_type(std::string_view name) {
  static const std::array<std::shared_ptr<arrow::DataType>, kColumnTypes.size()> kTypes{
      arrow::boolean(), arrow::int8(),    arrow::int16(),
      arrow::int32(),   arrow::int64(),   arrow::uint8(),
      arrow::uint16(),  arrow::uint32(),  arrow::uint64(),
      arrow::float32(), arrow::float64(), arrow::utf8(),
      arrow::binary(),  arrow::date32(),  arrow::timestamp(arrow::TimeUnit::MICRO)};
  const auto found = std::find(kColumnTypes.begin(), kColumnTypes.end(), name);
  if (found == kColumnTypes.end()) return nullptr;
  return kTypes[static_cast<std::size_t>(found - kColumnTypes.begin())];
}

}  // namespace train::data
