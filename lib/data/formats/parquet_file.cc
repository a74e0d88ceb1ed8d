// This is the only file that calls Parquet, which reports some faults by exceptions.
#include <arrow/io/interfaces.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <optional>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/read/column_plan.h"

namespace train::data {
namespace {

constexpr std::int64_t kBufferBytes = 256 << 10;  // of a column that is being decoded

using Footer = std::shared_ptr<parquet::FileMetaData>;

/// Return the status behind an exception of Parquet, such as a store's error.
arrow::Status status_of(const parquet::ParquetException& fault) {
  const auto* with_status = dynamic_cast<const parquet::ParquetStatusException*>(&fault);
  return with_status != nullptr ? with_status->status() : arrow::Status::Invalid(fault.what());
}

Result<std::unique_ptr<parquet::arrow::FileReader>> open_reader(const DataFile& file, Footer footer,
                                                                std::int64_t rows_at_once,
                                                                std::vector<PlannedRange> plan) {
  const std::string& path = file.path;
  try {
    ARROW_TRY(auto input, fmt::format("cannot open {}", path), open_file(file, std::move(plan)));
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
    properties.set_pre_buffer(false);  // of objects, open_file() reads ahead
    properties.set_batch_size(rows_at_once);
    ARROW_TRY(auto reader, fmt::format("cannot read {}", path),
              builder.properties(properties)->Build());
    return reader;
  } catch (const parquet::ParquetException& fault) {
    return error_from(status_of(fault), fmt::format("{} is not a complete Parquet file", path));
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
      return status_of(fault);
    }
  }

 private:
  std::unique_ptr<parquet::arrow::FileReader> file_;  // outlives rows_, which reads through it
  std::unique_ptr<arrow::RecordBatchReader> rows_;
};

class ParquetFile final : public FormatFile {
 public:
  ParquetFile(DataFile file, Footer footer, std::shared_ptr<arrow::Schema> schema)
      : file_(std::move(file)), footer_(std::move(footer)), schema_(std::move(schema)) {
    for (int group = 0; group < footer_->num_row_groups(); ++group)
      unit_rows_.push_back(footer_->RowGroup(group)->num_rows());
  }

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "row group"; }

  Result<std::shared_ptr<arrow::RecordBatchReader>> open(std::int64_t unit,
                                                         const arrow::Schema& selected,
                                                         std::int64_t rows_at_once) const override {
    TRY(auto reader, open_reader(file_, footer_, std::max<std::int64_t>(1, rows_at_once),
                                 ranges(unit, selected)));
    try {
      ARROW_TRY(auto rows, "Parquet",
                reader->GetRecordBatchReader({static_cast<int>(unit)}, leaves_of(selected)));
      return std::make_shared<RowGroupReader>(std::move(reader), std::move(rows));
    } catch (const parquet::ParquetException& fault) {
      return error_from(status_of(fault), "Parquet");
    }
  }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    TRY(const auto rows, open(unit, selected, unit_rows_[static_cast<std::size_t>(unit)]));
    ARROW_TRY(auto table, "Parquet", rows->ToTable());
    return table;
  }

  void expect(std::int64_t unit, const arrow::Schema& selected) const override {
    expect_reads(file_, ranges(unit, selected));
  }

  std::vector<ColumnBounds> bounds(std::int64_t unit, const arrow::Schema& columns) const override {
    std::vector<ColumnBounds> all;
    const auto group = footer_->RowGroup(static_cast<int>(unit));
    for (const int leaf : leaves_of(columns)) {
      const auto path = footer_->schema()->Column(leaf)->path()->ToDotVector();
      if (path.size() != 1) continue;  // a part of a column
      auto known = bounds_of(*group, leaf, *columns.GetFieldByName(path.front()));
      if (known) all.push_back(*std::move(known));
    }
    return all;
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

  /// Return what the statistics of a column tell, if there are any.
  static std::optional<ColumnBounds> bounds_of(const parquet::RowGroupMetaData& group, int leaf,
                                               const arrow::Field& field) {
    try {
      const auto statistics = group.ColumnChunk(leaf)->statistics();
      if (statistics == nullptr || !statistics->HasMinMax()) return std::nullopt;
      ColumnBounds known{
          .column = field.name(),
          .maybe_null = !statistics->HasNullCount() || statistics->null_count() != 0};
      std::shared_ptr<arrow::Scalar> min, max;
      if (!parquet::arrow::StatisticsAsScalars(*statistics, &min, &max).ok()) return std::nullopt;
      const auto cast_min = min->CastTo(field.type());
      const auto cast_max = max->CastTo(field.type());
      if (!cast_min.ok() || !cast_max.ok()) return std::nullopt;
      known.min = *cast_min;
      known.max = *cast_max;
      return known;
    } catch (const parquet::ParquetException&) {
      return std::nullopt;  // decoding the column says what is wrong with it
    }
  }

  /// Return where the columns of a row group are, for objects.
  std::vector<PlannedRange> ranges(std::int64_t unit, const arrow::Schema& selected) const {
    if (file_.place == nullptr) return {};
    const auto group = footer_->RowGroup(static_cast<int>(unit));
    std::vector<ColumnBytes> columns;
    for (const int leaf : leaves_of(selected)) {
      const auto chunk = group->ColumnChunk(leaf);
      std::int64_t begin = chunk->data_page_offset();
      if (chunk->has_dictionary_page() && chunk->dictionary_page_offset() > 0)
        begin = std::min(begin, chunk->dictionary_page_offset());
      columns.push_back({begin, chunk->total_compressed_size()});
    }
    return plan_columns(std::move(columns), file_.bytes);
  }

  DataFile file_;
  Footer footer_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> unit_rows_;
};

}  // namespace

OpenedFile open_parquet_file(const DataFile& file) {
  TRY(const auto reader, open_reader(file, nullptr, 1, {}));
  std::shared_ptr<arrow::Schema> schema;
  if (const arrow::Status status = reader->GetSchema(&schema); !status.ok())
    return error_from(status, fmt::format("cannot read the schema of {}", file.path));
  return std::make_unique<ParquetFile>(file, reader->parquet_reader()->metadata(),
                                       std::move(schema));
}

}  // namespace train::data
