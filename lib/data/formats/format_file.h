// One file of a dataset. It knows its units, which are what is decoded at once, and how many rows
// each has:
//
//   parquet  a row group            arrow  a record batch       orc  a stripe
//   csv, json  the lines of about 2 MiB; a compressed file is one unit
//   numpy, cifar  the rows of about 2 MiB
//   webdataset  the samples of about 2 MiB; a compressed archive is one unit
//   images  64 files: one FormatFile stands for all files of the dataset
//
// No file stays open between two calls, since a dataset may have more files than a process may
// open.
#pragma once

#include <arrow/type_fwd.h>

#include "lib/data/dataset_files.h"
#include "lib/data/read/data_file.h"

namespace train::data {

/// The bytes of a unit where the format leaves its size to us: a block of the usual size, so that
/// what a lane holds (plan/row_order.h) is a block, and no more.
inline constexpr std::int64_t kUnitBytes = 2 << 20;

/// What a file tells about the values of a column in a unit, without decoding them: each that is
/// there, and is a number if the column has floating-point numbers, lies in [min, max].
struct ColumnBounds {
  std::string column = {};
  std::shared_ptr<arrow::Scalar> min = {}, max = {};  // of the column's type
  bool maybe_null = true;                             // some values may be missing
};

class FormatFile {
 public:
  virtual ~FormatFile() = default;
  /// Return the rows of each unit.
  virtual const std::vector<std::int64_t>& unit_rows() const = 0;
  /// Return all columns of the file.
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  /// Decode the columns of `selected`, which are some of schema(), of a unit. The table may have
  /// more columns, and any order. Several threads may call this.
  virtual Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                                     const arrow::Schema& selected) const = 0;
  /// Begin to decode these columns of a unit, piece by piece: formats that can decode a part of a
  /// unit give pieces of about `rows_at_once` rows, the others what read() returns.
  virtual Result<std::shared_ptr<arrow::RecordBatchReader>> open(std::int64_t unit,
                                                                 const arrow::Schema& selected,
                                                                 std::int64_t rows_at_once) const;
  /// Tell that open() or read() of a unit, or read_rows() of these rows of it, is called soon, so
  /// that the bytes of an object are there then.
  virtual void expect(std::int64_t /*unit*/, const arrow::Schema& /*selected*/) const {}
  virtual void expect_rows(std::int64_t /*unit*/, const std::vector<std::int64_t>& /*rows*/) const {
  }
  /// Return what is known about columns of `columns` in a unit; nothing of those that are left out.
  virtual std::vector<ColumnBounds> bounds(std::int64_t /*unit*/,
                                           const arrow::Schema& /*columns*/) const {
    return {};
  }
  /// Return about how many bytes these columns of all units have when they are decoded; 0: unknown.
  virtual std::int64_t decoded_bytes(const arrow::Schema&) const { return 0; }
  /// Return whether read_rows() works: each row can be read by itself.
  virtual bool reads_rows() const { return false; }
  /// Read these rows of a unit, in this order, as read() does.
  virtual Result<std::shared_ptr<arrow::Table>> read_rows(std::int64_t unit,
                                                          const std::vector<std::int64_t>& rows,
                                                          const arrow::Schema& selected) const;
  /// Return what messages call a unit: "row group", "lines", …
  virtual std::string_view unit_word() const = 0;
  /// Return what tells the rows apart from others, beside their number and the file's size.
  virtual std::uint64_t digest() const { return 0; }
  /// Return whether this stands for several files; then the errors of read() name the file.
  virtual bool has_many_files() const { return false; }
  /// Return what messages call a row of a unit, without the file; with it, if has_many_files().
  virtual std::string describe(std::int64_t unit, std::int64_t row) const;
};

using OpenedFile = Result<std::unique_ptr<FormatFile>>;

OpenedFile open_parquet_file(const DataFile& file);
OpenedFile open_arrow_file(const DataFile& file);
OpenedFile open_orc_file(const DataFile& file);
OpenedFile open_numpy_file(const DataFile& file);
OpenedFile open_cifar_file(const DataFile& file, int labels);
/// `columns`: those that each sample must have; empty: those of the first sample.
OpenedFile open_webdataset_file(const DataFile& file, const std::vector<std::string>& columns);
/// One file for all of the dataset's.
OpenedFile open_image_files(const FoundFiles& found, const FilesSpec& spec);
/// `first` is the schema of the dataset's first file, whose types this one must have too; none:
/// this is the first.
OpenedFile open_csv_file(const DataFile& file, const FilesSpec& spec,
                         const std::shared_ptr<arrow::Schema>& first);
OpenedFile open_json_file(const DataFile& file, const FilesSpec& spec,
                          const std::shared_ptr<arrow::Schema>& first);

/// Return the file without the rows that do not pass the spec's filter, which is read for that. An
/// error names the columns that there are if the filter is about another, or the types that cannot
/// be compared.
OpenedFile filter_file(std::unique_ptr<FormatFile> file, const std::string& path,
                       const FilesSpec& spec);

/// Return the file with its columns of tensors, as Arrow's extension fixed_shape_tensor and Ray
/// Data's arrow_tensor mark them, as nested lists of fixed sizes (tensor_shape.h).
OpenedFile with_plain_tensors(std::unique_ptr<FormatFile> file, const std::string& path);

/// Return the rows as a table. Their offsets come from a file: an error if one points outside of
/// its values.
Result<std::shared_ptr<arrow::Table>> checked_table(std::shared_ptr<arrow::RecordBatch> rows);

/// Return Arrow's type for one of the names of lib/model/column_type.h; null for another name.
std::shared_ptr<arrow::DataType> column_type(std::string_view name);

}  // namespace train::data
