// Parquet and Arrow IPC files, by Arrow's writers.
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <fmt/format.h>
#include <parquet/arrow/writer.h>

#include <array>
#include <limits>

#include "cmd/train-data/output_stream.h"
#include "lib/base/write_all.h"
#include "lib/data/arrow_error.h"

namespace train {
namespace {

struct FormatRow {
  std::string_view name, ending;
  std::int64_t chunk_bytes;
};
/// By OutputFormat. A worker holds a record batch of an Arrow file for each of its lanes, and of
/// Parquet only a part of a row group; samples are read one by one.
constexpr std::array kFormats{FormatRow{"parquet", "parquet", 32 << 20},
                              FormatRow{"arrow", "arrow", 2 << 20},
                              FormatRow{"webdataset", "tar", 4 << 20}};

const FormatRow& row_of(OutputFormat format) { return kFormats[static_cast<std::size_t>(format)]; }

class ParquetFile final : public OutputFile {
 public:
  explicit ParquetFile(const OutputPlace& file) : stream_(std::make_shared<PlaceStream>(file)) {}

  Result<Unit> open(const std::shared_ptr<arrow::Schema>& schema) {
    // The schema of Arrow keeps what Parquet has no types for.
    auto opened = parquet::arrow::FileWriter::Open(
        *schema, arrow::default_memory_pool(), stream_,
        parquet::WriterProperties::Builder()
            .compression(parquet::Compression::SNAPPY)
            ->max_row_group_length(std::numeric_limits<std::int64_t>::max())
            ->build(),
        parquet::ArrowWriterProperties::Builder().store_schema()->build());
    if (!opened.ok()) return stream_->error(opened.status());
    writer_ = std::move(opened).ValueUnsafe();
    return Unit{};
  }
  Result<Unit> write(const std::shared_ptr<arrow::RecordBatch>& rows) override {
    const auto table = arrow::Table::FromRecordBatches(rows->schema(), {rows});
    if (!table.ok()) return stream_->error(table.status());
    return checked(writer_->WriteTable(**table, rows->num_rows()));
  }
  Result<Unit> finish() override { return checked(writer_->Close()); }

 private:
  Result<Unit> checked(const arrow::Status& status) const {
    if (!status.ok()) return stream_->error(status);
    return Unit{};
  }

  std::shared_ptr<PlaceStream> stream_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

class ArrowFile final : public OutputFile {
 public:
  explicit ArrowFile(const OutputPlace& file) : stream_(std::make_shared<PlaceStream>(file)) {}

  Result<Unit> open(const std::shared_ptr<arrow::Schema>& schema) {
    auto opened = arrow::ipc::MakeFileWriter(stream_, schema);
    if (!opened.ok()) return stream_->error(opened.status());
    writer_ = std::move(opened).ValueUnsafe();
    return Unit{};
  }
  Result<Unit> write(const std::shared_ptr<arrow::RecordBatch>& rows) override {
    return checked(writer_->WriteRecordBatch(*rows));
  }
  Result<Unit> finish() override { return checked(writer_->Close()); }

 private:
  Result<Unit> checked(const arrow::Status& status) const {
    if (!status.ok()) return stream_->error(status);
    return Unit{};
  }

  std::shared_ptr<PlaceStream> stream_;
  std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
};

template <class File>
NewOutput opened(const OutputPlace& file, const std::shared_ptr<arrow::Schema>& schema) {
  auto output = std::make_unique<File>(file);
  TRY_VOID(output->open(schema));
  return std::unique_ptr<OutputFile>(std::move(output));
}

}  // namespace

arrow::Status PlaceStream::Write(const void* data, std::int64_t bytes) {
  const auto written = write_all(
      file_.fd, {static_cast<const char*>(data), static_cast<std::size_t>(bytes)}, file_.path);
  if (written.has_error()) {
    failed_ = written.error();
    return arrow::Status::IOError(written.error().message);
  }
  written_ += bytes;
  return arrow::Status::OK();
}

arrow::Status PlaceStream::Close() {
  closed_ = true;
  return arrow::Status::OK();
}

Error PlaceStream::error(const arrow::Status& status) const {
  return failed_ ? *failed_ : data::error_from(status, "cannot write " + file_.path);
}

Result<OutputFormat> output_format(std::string_view name) {
  for (std::size_t i = 0; i < kFormats.size(); ++i)
    if (kFormats[i].name == name) return static_cast<OutputFormat>(i);
  return Error{Errc::InvalidArgument, fmt::format("there is no format '{}' to convert to", name)};
}

std::string_view ending_of(OutputFormat format) { return row_of(format).ending; }
std::int64_t chunk_bytes_of(OutputFormat format) { return row_of(format).chunk_bytes; }

NewOutput new_parquet_file(const OutputPlace& file, const std::shared_ptr<arrow::Schema>& schema) {
  return opened<ParquetFile>(file, schema);
}

NewOutput new_arrow_file(const OutputPlace& file, const std::shared_ptr<arrow::Schema>& schema) {
  return opened<ArrowFile>(file, schema);
}

}  // namespace train
