// This is the only file that calls Parquet, which reports some faults by exceptions.
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"

namespace train::data {
namespace {

constexpr std::int64_t kBufferBytes = 256 << 10;  // of a column that is being decoded

using Footer = std::shared_ptr<parquet::FileMetaData>;

Result<std::unique_ptr<parquet::arrow::FileReader>> open_reader(const std::string& path,
                                                                Footer footer,
                                                                std::int64_t rows_at_once) {
  try {
    ARROW_TRY(auto input, fmt::format("cannot open {}", path), arrow::io::ReadableFile::Open(path));
    parquet::arrow::FileReaderBuilder builder;
    // Else each column of a row group would be read whole before its first row is decoded.
    parquet::ReaderProperties reading = parquet::default_reader_properties();
    reading.enable_buffered_stream();
    reading.set_buffer_size(kBufferBytes);
    const arrow::Status opened = builder.Open(std::move(input), reading, std::move(footer));
    if (!opened.ok())
      return error_from(opened, fmt::format("{} is not a complete Parquet file", path));
    // The caller's thread serves only this reader.
    parquet::ArrowReaderProperties properties(
        /*use_threads=*/false);
    properties.set_pre_buffer(false);  // files are local: Arrow's pool need not read ahead
    properties.set_batch_size(rows_at_once);
    ARROW_TRY(auto reader, fmt::format("cannot read {}", path),
              builder.properties(properties)->Build());
    return reader;
  } catch (const parquet::ParquetException& fault) {
    return Error{Errc::Corrupt,
                 fmt::format("{} is not a complete Parquet file: {}", path, fault.what())};
  }
}

/// Decodes a row group, and turns Parquet's exceptions into errors.
class RowGroupReader final : public arrow::RecordBatchReader {
 public:
  RowGroupReader(std::unique_ptr<parquet::arrow::FileReader> file,
                 std::unique_ptr<arrow::RecordBatchReader> rows)
      : file_(std::move(file)), rows_(std::move(rows)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return rows_->schema(); }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* rows) override {
    try {
      return rows_->ReadNext(rows);
    } catch (const parquet::ParquetException& fault) {
      return arrow::Status::Invalid(fault.what());
    }
  }

 private:
  std::unique_ptr<parquet::arrow::FileReader> file_;  // outlives rows_, which reads through it
  std::unique_ptr<arrow::RecordBatchReader> rows_;
};

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

  Result<std::shared_ptr<arrow::RecordBatchReader>> open(std::int64_t unit,
                                                         const arrow::Schema& selected,
                                                         std::int64_t rows_at_once) const override {
    TRY(auto reader, open_reader(path_, footer_, std::max<std::int64_t>(1, rows_at_once)));
    try {
      ARROW_TRY(auto rows, "Parquet",
                reader->GetRecordBatchReader({static_cast<int>(unit)}, leaves_of(selected)));
      return std::make_shared<RowGroupReader>(std::move(reader), std::move(rows));
    } catch (const parquet::ParquetException& fault) {
      return Error{Errc::Corrupt, fault.what()};
    }
  }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    TRY(const auto rows, open(unit, selected, unit_rows_[static_cast<std::size_t>(unit)]));
    ARROW_TRY(auto table, "Parquet", rows->ToTable());
    return table;
  }

  std::int64_t decoded_bytes(const arrow::Schema& selected) const override {
    std::int64_t bytes = 0;
    for (int group = 0; group < footer_->num_row_groups(); ++group) {
      const auto row_group = footer_->RowGroup(group);
      for (const int leaf : leaves_of(selected)) {
        const std::int64_t of_column = row_group->ColumnChunk(leaf)->total_uncompressed_size();
        if (of_column < 0 || __builtin_add_overflow(bytes, of_column, &bytes)) return 0;
      }
    }
    return bytes;
  }

 private:
  /// Return the Parquet columns under the selected Arrow ones.
  std::vector<int> leaves_of(const arrow::Schema& selected) const {
    std::vector<int> leaves;
    const parquet::SchemaDescriptor& all = *footer_->schema();
    for (int leaf = 0; leaf < all.num_columns(); ++leaf) {
      if (selected.GetFieldByName(all.GetColumnRoot(leaf)->name())) leaves.push_back(leaf);
    }
    return leaves;
  }

  std::string path_;
  Footer footer_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> unit_rows_;
};

}  // namespace

OpenedFile open_parquet_file(const std::string& path) {
  TRY(const auto reader, open_reader(path, nullptr, 1));
  std::shared_ptr<arrow::Schema> schema;
  if (const arrow::Status status = reader->GetSchema(&schema); !status.ok())
    return error_from(status, fmt::format("cannot read the schema of {}", path));
  return std::make_unique<ParquetFile>(path, reader->parquet_reader()->metadata(),
                                       std::move(schema));
}

}  // namespace train::data
