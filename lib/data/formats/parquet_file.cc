// This is the only file that calls Parquet, which reports some faults by exceptions.
#include <arrow/io/file.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"

namespace train::data {
namespace {

using Footer = std::shared_ptr<parquet::FileMetaData>;

Result<std::unique_ptr<parquet::arrow::FileReader>> open_reader(const std::string& path,
                                                                Footer footer) {
  try {
    ARROW_TRY(auto input, fmt::format("cannot open {}", path), arrow::io::ReadableFile::Open(path));
    parquet::arrow::FileReaderBuilder builder;
    const arrow::Status opened =
        builder.Open(std::move(input), parquet::default_reader_properties(), std::move(footer));
    if (!opened.ok())
      return error_from(opened, fmt::format("{} is not a complete Parquet file", path));
    // The caller's thread serves only this reader.
    parquet::ArrowReaderProperties properties(
        /*use_threads=*/false);
    properties.set_pre_buffer(false);  // files are local: Arrow's pool need not read ahead
    ARROW_TRY(auto reader, fmt::format("cannot read {}", path),
              builder.properties(properties)->Build());
    return reader;
  } catch (const parquet::ParquetException& fault) {
    return Error{Errc::Corrupt,
                 fmt::format("{} is not a complete Parquet file: {}", path, fault.what())};
  }
}

class ParquetFile final : public FormatFile {
 public:
  ParquetFile(std::string path, Footer footer, std::shared_ptr<arrow::Schema> schema)
      : path_(std::move(path)), footer_(std::move(footer)), schema_(std::move(schema)) {
    for (int group = 0; group < footer_->num_row_groups(); ++group)
      unit_rows_.push_back(footer_->RowGroup(group)->num_rows());
  }

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "row group"; }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    std::vector<int> leaves;  // the Parquet columns under the selected Arrow ones
    const parquet::SchemaDescriptor& all = *footer_->schema();
    for (int leaf = 0; leaf < all.num_columns(); ++leaf) {
      if (selected.GetFieldByName(all.GetColumnRoot(leaf)->name())) leaves.push_back(leaf);
    }
    TRY(const auto reader, open_reader(path_, footer_));
    try {
      ARROW_TRY(auto table, "Parquet", reader->ReadRowGroup(static_cast<int>(unit), leaves));
      return table;
    } catch (const parquet::ParquetException& fault) {
      return Error{Errc::Corrupt, fault.what()};
    }
  }

 private:
  std::string path_;
  Footer footer_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> unit_rows_;
};

}  // namespace

OpenedFile open_parquet_file(const std::string& path) {
  TRY(const auto reader, open_reader(path, nullptr));
  std::shared_ptr<arrow::Schema> schema;
  if (const arrow::Status status = reader->GetSchema(&schema); !status.ok())
    return error_from(status, fmt::format("cannot read the schema of {}", path));
  return std::make_unique<ParquetFile>(path, reader->parquet_reader()->metadata(),
                                       std::move(schema));
}

}  // namespace train::data
