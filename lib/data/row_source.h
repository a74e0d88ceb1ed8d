// A RowSource supplies rows as row groups, which are read whole and one at a time. ParquetSource
// reads files (dataset_files.h); MemorySource holds rows that are already in memory (the `items` of
// a spec).
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Return the number of rows of each row group, in the order of the files. The input for a
  /// ShardPlan.
  virtual const std::vector<std::int64_t>& group_rows() const = 0;
  /// Return the schema of the rows that read() returns: the selected columns, in the requested
  /// order.
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  /// Decode row group `group`, on the calling thread. Errors name the file and the row group.
  /// Several threads may call this.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> read(std::int64_t group) const = 0;
  /// Return what messages call a row of a row group: "a.parquet, row group 3, row 512".
  virtual std::string describe(std::int64_t /*group*/, std::int64_t row) const {
    return "row " + std::to_string(row);
  }
};

class MemorySource final : public RowSource {
 public:
  explicit MemorySource(std::shared_ptr<arrow::RecordBatch> rows);
  const std::vector<std::int64_t>& group_rows() const override { return group_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  Result<std::shared_ptr<arrow::RecordBatch>> read(std::int64_t group) const override;

 private:
  std::shared_ptr<arrow::RecordBatch> rows_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> group_rows_;
};

}  // namespace train::data
