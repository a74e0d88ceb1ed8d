#include <arrow/record_batch.h>

#include "lib/data/row_source.h"

namespace train::data {

MemorySource::MemorySource(std::shared_ptr<arrow::RecordBatch> rows)
    : rows_(std::move(rows)), schema_(rows_->schema()), group_rows_{rows_->num_rows()} {}

Result<std::shared_ptr<arrow::RecordBatch>> MemorySource::read(std::int64_t) const { return rows_; }

}  // namespace train::data
