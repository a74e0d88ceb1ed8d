#include <arrow/adapters/orc/adapter.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"

namespace train::data {
namespace {

using Reader = std::unique_ptr<arrow::adapters::orc::ORCFileReader>;

Result<Reader> open_reader(const std::string& path) {
  ARROW_TRY(auto input, fmt::format("cannot open {}", path), arrow::io::ReadableFile::Open(path));
  ARROW_TRY(
      auto reader, fmt::format("{} is not a complete ORC file", path),
      arrow::adapters::orc::ORCFileReader::Open(std::move(input), arrow::default_memory_pool()));
  return reader;
}

class OrcFile final : public FormatFile {
 public:
  OrcFile(std::string path, std::shared_ptr<arrow::Schema> schema,
          std::vector<std::int64_t> unit_rows)
      : path_(std::move(path)), schema_(std::move(schema)), unit_rows_(std::move(unit_rows)) {}

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "stripe"; }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    TRY(const auto reader, open_reader(path_));
    ARROW_TRY(auto batch, "ORC", reader->ReadStripe(unit, selected.field_names()));
    return checked_table(std::move(batch));
  }

 private:
  std::string path_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> unit_rows_;
};

}  // namespace

OpenedFile open_orc_file(const std::string& path) {
  TRY(const auto reader, open_reader(path));
  ARROW_TRY(auto schema, fmt::format("cannot read the schema of {}", path), reader->ReadSchema());
  std::vector<std::int64_t> unit_rows;
  for (std::int64_t stripe = 0; stripe < reader->NumberOfStripes(); ++stripe)
    unit_rows.push_back(reader->GetStripeInformation(stripe).num_rows);
  return std::make_unique<OrcFile>(path, std::move(schema), std::move(unit_rows));
}

}  // namespace train::data
