// Arrow's file format (IPC, also called Feather version 2).
#include <arrow/io/interfaces.h>
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

Result<Reader> open_reader(const DataFile& file, std::vector<int> fields) {
  // Not by mmap: a file that is cut while it is mapped would end the process.
  ARROW_TRY(const auto input, fmt::format("cannot open {}", file.path), open_file(file));
  arrow::ipc::IpcReadOptions options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.included_fields = std::move(fields);
  auto reader = arrow::ipc::RecordBatchFileReader::Open(input, options);
  if (!reader.ok()) {
    Error error =
        error_from(reader.status(), fmt::format("{} is not a complete Arrow file", file.path));
    if (error.hint.empty())
      error.hint = "a stream (as pyarrow.ipc.new_stream writes it) cannot be read: write a file";
    return error;
  }
  return std::move(reader).ValueUnsafe();
}

class ArrowFile final : public FormatFile {
 public:
  ArrowFile(DataFile file, std::shared_ptr<arrow::Schema> schema,
            std::vector<std::int64_t> unit_rows)
      : file_(std::move(file)), schema_(std::move(schema)), unit_rows_(std::move(unit_rows)) {}

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "record batch"; }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    std::vector<int> fields;
    for (int field = 0; field < schema_->num_fields(); ++field) {
      if (selected.GetFieldByName(schema_->field(field)->name())) fields.push_back(field);
    }
    TRY(const auto reader, open_reader(file_, std::move(fields)));
    ARROW_TRY(auto batch, "Arrow", reader->ReadRecordBatch(static_cast<int>(unit)));
    return checked_table(std::move(batch));
  }

 private:
  DataFile file_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> unit_rows_;
};

}  // namespace

OpenedFile open_arrow_file(const DataFile& file) {
  TRY(const auto whole, open_reader(file, {}));
  const auto schema = whole->schema();
  if (schema->num_fields() == 0) {
    return Error{Errc::InvalidArgument, fmt::format("{} has no columns", file.path)};
  }
  // The first column alone tells the rows.
  TRY(const auto reader, open_reader(file, {0}));
  std::vector<std::int64_t> unit_rows;
  for (int batch = 0; batch < reader->num_record_batches(); ++batch) {
    ARROW_TRY(const auto rows, fmt::format("cannot read record batch {} of {}", batch, file.path),
              reader->ReadRecordBatch(batch));
    unit_rows.push_back(rows->num_rows());
  }
  return std::make_unique<ArrowFile>(file, schema, std::move(unit_rows));
}

}  // namespace train::data
