// Shards of WebDataset.
#include <arrow/record_batch.h>
#include <fmt/format.h>

#include "cmd/train-data/output_file.h"
#include "cmd/train-data/sample_fields.h"
#include "cmd/train-data/tar_file.h"

namespace train {
namespace {

class WebDatasetFile final : public OutputFile {
 public:
  WebDatasetFile(TarFile tar, std::int64_t first_row, std::shared_ptr<const SampleFields> fields)
      : tar_(std::move(tar)), next_row_(first_row), fields_(std::move(fields)) {}

  Result<Unit> write(const std::shared_ptr<arrow::RecordBatch>& rows) override {
    for (std::int64_t row = 0; row < rows->num_rows(); ++row, ++next_row_) {
      auto added = add(*rows, row);
      if (added.has_error())
        return std::move(added).error().with_context(fmt::format("row {}", next_row_));
    }
    return Unit{};
  }
  Result<Unit> finish() override { return tar_.finish(); }

 private:
  Result<Unit> add(const arrow::RecordBatch& rows, std::int64_t row) {
    TRY(const std::string key, sample_key(*fields_, rows, row, next_row_));
    // Readers take neighbours with one key for one sample.
    if (key == last_key_)
      return Error{Errc::InvalidArgument, fmt::format("the row before it has its key '{}'", key)};
    for (const MemberField& field : fields_->fields) {
      auto content = sample_content(field, rows, row);
      if (content.has_error())
        return std::move(content).error().with_context(
            fmt::format("column '{}'", rows.column_name(field.column)));
      TRY_VOID(tar_.add(fmt::format("{}.{}", key, field.name), *content));
    }
    last_key_ = key;
    return Unit{};
  }

  TarFile tar_;
  std::int64_t next_row_;
  std::shared_ptr<const SampleFields> fields_;
  std::string last_key_;
};

}  // namespace

NewOutput new_webdataset_file(const OutputPlace& file, std::shared_ptr<const SampleFields> fields) {
  TRY(TarFile tar, TarFile::open(file));
  return std::make_unique<WebDatasetFile>(std::move(tar), file.first_row, std::move(fields));
}

}  // namespace train
