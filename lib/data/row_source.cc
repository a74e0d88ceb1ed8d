#include "lib/data/row_source.h"

#include <arrow/record_batch.h>

#include <numeric>

#include "lib/data/arrow_error.h"

namespace train::data {
namespace {

class MemoryStream final : public UnitStream {
 public:
  explicit MemoryStream(std::shared_ptr<arrow::RecordBatch> rows) : rows_(std::move(rows)) {}
  Result<arrow::RecordBatchVector> pieces(std::int64_t rows) override {
    arrow::RecordBatchVector part{rows_->Slice(begin_, rows)};
    begin_ += rows;
    return part;
  }

 private:
  std::shared_ptr<arrow::RecordBatch> rows_;
  std::int64_t begin_ = 0;
};

}  // namespace

Result<std::shared_ptr<arrow::RecordBatch>> UnitStream::next(std::int64_t rows) {
  TRY(auto parts, pieces(rows));
  if (parts.size() == 1) return std::move(parts.front());
  ARROW_TRY(auto joined, "cannot join the rows of a unit", arrow::ConcatenateRecordBatches(parts));
  return joined;
}

Result<std::shared_ptr<arrow::RecordBatch>> RowSource::read_rows(
    std::int64_t, const std::vector<std::int64_t>&) const {
  return Error{Errc::Internal, "single rows of this source cannot be read"};
}

std::int64_t RowSource::total_rows() const {
  const auto& rows = unit_rows();
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

Result<std::shared_ptr<arrow::RecordBatch>> RowSource::read(std::int64_t unit) const {
  const std::int64_t rows = unit_rows()[static_cast<std::size_t>(unit)];
  TRY(const auto stream, open(unit, rows));
  return stream->next(rows);
}

MemorySource::MemorySource(std::shared_ptr<arrow::RecordBatch> rows)
    : rows_(std::move(rows)), schema_(rows_->schema()), unit_rows_{rows_->num_rows()} {}

Result<std::unique_ptr<UnitStream>> MemorySource::open(std::int64_t, std::int64_t) const {
  return std::make_unique<MemoryStream>(rows_);
}

}  // namespace train::data
