// Arrow's file format (IPC, also called Feather version 2).
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <limits>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"

namespace train::data {
namespace {

using Reader = std::shared_ptr<arrow::ipc::RecordBatchFileReader>;

Result<Reader> open_reader(const std::string& path, std::vector<int> fields) {
  // Not by mmap: a file that is cut while it is mapped would end the process.
  ARROW_TRY(auto input, fmt::format("cannot open {}", path), arrow::io::ReadableFile::Open(path));
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.included_fields = std::move(fields);
  auto reader = arrow::ipc::RecordBatchFileReader::Open(std::move(input), options);
  if (!reader.ok()) {
    Error error = error_from(reader.status(), fmt::format("{} is not a complete Arrow file", path));
    error.hint = "a stream (as pyarrow.ipc.new_stream writes it) cannot be read: write a file";
    return error;
  }
  return std::move(reader).ValueUnsafe();
}

class ArrowFile final : public FormatFile {
 public:
  ArrowFile(std::string path, std::shared_ptr<arrow::Schema> schema,
            std::vector<std::int64_t> unit_rows)
      : path_(std::move(path)), schema_(std::move(schema)), unit_rows_(std::move(unit_rows)) {}

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "record batch"; }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    std::vector<int> fields;
    for (int field = 0; field < schema_->num_fields(); ++field) {
      if (selected.GetFieldByName(schema_->field(field)->name())) fields.push_back(field);
    }
    TRY(const auto reader, open_reader(path_, std::move(fields)));
    ARROW_TRY(auto batch, "Arrow", reader->ReadRecordBatch(static_cast<int>(unit)));
    return checked_table(std::move(batch));
  }

 private:
  std::string path_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> unit_rows_;
};

}  // namespace

OpenedFile open_arrow_file(const std::string& path) {
  TRY(const auto whole, open_reader(path, {}));
  const auto schema = whole->schema();
  if (schema->num_fields() == 0) {
    return Error{Errc::InvalidArgument, fmt::format("{} has no columns", path)};
  }
  // The first column alone tells the rows.
  TRY(const auto reader, open_reader(path, {0}));
  std::vector<std::int64_t> unit_rows;
  for (int batch = 0; batch < reader->num_record_batches(); ++batch) {
    ARROW_TRY(const auto rows, fmt::format("cannot read record batch {} of {}", batch, path),
              reader->ReadRecordBatch(batch));
    unit_rows.push_back(rows->num_rows());
  }
  return std::make_unique<ArrowFile>(path, schema, std::move(unit_rows));
}

}  // namespace train::data
