// A RowSource supplies the rows of a dataset by units, which several streams may read at once.
// open_files() makes one that reads files (dataset_files.h); MemorySource holds rows that are
// already in memory (the `items` of a spec).
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

/// The rows of one unit, from the first on. One thread uses a stream at a time.
class UnitStream {
 public:
  virtual ~UnitStream() = default;
  /// Return the next `rows` rows, of which at least as many must be left, in the pieces in which
  /// they were decoded: at least one. Errors name the file and the unit; after one, the stream is
  /// of no use.
  virtual Result<arrow::RecordBatchVector> pieces(std::int64_t rows) = 0;
  /// Return them as one batch.
  Result<std::shared_ptr<arrow::RecordBatch>> next(std::int64_t rows);
};

/// One file of a dataset.
struct FileRows {
  std::string path = {};
  std::int64_t units = 0;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;    // its size
  std::uint64_t digest = 0;  // of what else tells its rows from others; 0: nothing
  std::string version = {};  // of an object: another one for other bytes
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Return the number of rows of each unit, in the order of the files.
  virtual const std::vector<std::int64_t>& unit_rows() const = 0;
  /// Return the files, in that order; none for rows in memory.
  virtual const std::vector<FileRows>& files() const = 0;
  /// Return about how many bytes all rows have when they are decoded; at least 1.
  virtual std::int64_t decoded_bytes() const = 0;
  /// Return the schema of the rows that streams return: the selected columns, in the requested
  /// order.
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  /// Begin to read a unit, whose pieces should have about `rows_at_once` rows, if the format can
  /// decode a part of a unit. Several threads may call this, and use a stream each.
  virtual Result<std::unique_ptr<UnitStream>> open(std::int64_t unit,
                                                   std::int64_t rows_at_once) const = 0;
  /// Return whether read_rows() works: rows can be read one by one at little cost.
  virtual bool reads_rows() const { return false; }
  /// Return these rows of a unit, in this order. Several threads may call this.
  virtual Result<std::shared_ptr<arrow::RecordBatch>> read_rows(
      std::int64_t unit, const std::vector<std::int64_t>& rows) const;

  /// Return whether it is of use to call expect() and expect_rows(), as rows come from far away.
  virtual bool is_far() const { return false; }
  /// Tell that open() of a unit, or read_rows() of these rows of it, is called soon. Several
  /// threads may call this.
  virtual void expect(std::int64_t /*unit*/) const {}
  virtual void expect_rows(std::int64_t /*unit*/, const std::vector<std::int64_t>& /*rows*/) const {
  }
  /// Tell that nothing is expected any longer.
  virtual void expect_nothing() const {}

  std::int64_t total_rows() const;
  /// Decode a whole unit.
  Result<std::shared_ptr<arrow::RecordBatch>> read(std::int64_t unit) const;
  /// Return what messages call a row of a unit: "a.parquet, row group 3, row 512".
  virtual std::string describe(std::int64_t /*unit*/, std::int64_t row) const {
    return "row " + std::to_string(row);
  }
};

class MemorySource final : public RowSource {
 public:
  explicit MemorySource(std::shared_ptr<arrow::RecordBatch> rows);
  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::vector<FileRows>& files() const override { return files_; }
  std::int64_t decoded_bytes() const override { return 1; }  // they are in memory as they are
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  Result<std::unique_ptr<UnitStream>> open(std::int64_t unit,
                                           std::int64_t rows_at_once) const override;

 private:
  std::shared_ptr<arrow::RecordBatch> rows_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::int64_t> unit_rows_;
  std::vector<FileRows> files_;
};

}  // namespace train::data
