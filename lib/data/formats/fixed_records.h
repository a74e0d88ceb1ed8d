// A file whose rows all have the same number of bytes, after a header: NumPy's and CIFAR's.
#pragma once

#include <arrow/type_fwd.h>

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/read/data_file.h"

namespace train::data {

class FixedRecords {
 public:
  /// Rows of `row_bytes`, at least 1, from byte `begin` of a file of `size` bytes to its end. An
  /// error if the last row is cut.
  static Result<FixedRecords> make(DataFile file, std::int64_t begin, std::int64_t row_bytes,
                                   std::int64_t size);

  std::int64_t rows() const { return rows_; }
  std::int64_t row_bytes() const { return row_bytes_; }
  const std::vector<std::int64_t>& unit_rows() const { return unit_rows_; }
  /// Read the bytes of a unit: unit_rows()[unit] times row_bytes().
  Result<std::shared_ptr<arrow::Buffer>> read(std::int64_t unit) const;

  /// Read the bytes of these rows of a unit, in this order.
  Result<std::shared_ptr<arrow::Buffer>> read_rows(std::int64_t unit,
                                                   const std::vector<std::int64_t>& rows) const;
  /// See FormatFile.
  void expect(std::int64_t unit) const;
  void expect_rows(std::int64_t unit, const std::vector<std::int64_t>& rows) const;

 private:
  PlannedRange range(std::int64_t unit) const;
  std::int64_t offset_of(std::int64_t unit, std::int64_t row) const;
  std::vector<WantedRange> stretches_of(std::int64_t unit,
                                        const std::vector<std::int64_t>& rows) const;
  Result<Unit> copy_rows(std::int64_t unit, const std::vector<std::int64_t>& rows,
                         std::uint8_t* to) const;
  DataFile file_;
  std::int64_t begin_ = 0, row_bytes_ = 0, rows_ = 0, rows_per_unit_ = 0;
  std::vector<std::int64_t> unit_rows_;
};

/// Return the bytes of a file, and its size.
struct FileStart {
  std::string bytes;  // at most as many as were asked for
  std::int64_t size = 0;
};
Result<FileStart> read_start(const DataFile& file, std::int64_t bytes);

/// Return `values` as rows of lists, nested to the shape: {3, 32, 32} makes lists of 3 lists of 32
/// lists of 32 values.
Result<std::shared_ptr<arrow::Array>> as_rows(std::shared_ptr<arrow::Array> values,
                                              const std::vector<std::int64_t>& shape);
/// Return the type of what as_rows() makes.
std::shared_ptr<arrow::DataType> row_type(std::shared_ptr<arrow::DataType> value,
                                          const std::vector<std::int64_t>& shape);

}  // namespace train::data
