#include "lib/data/formats/fixed_records.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"

namespace train::data {

Result<FixedRecords> FixedRecords::make(std::string path, std::int64_t begin,
                                        std::int64_t row_bytes, std::int64_t size) {
  if (size < begin || (size - begin) % row_bytes != 0) {
    return Error{Errc::Corrupt,
                 fmt::format("{} has {} bytes after its first {}, which are no whole number of "
                             "rows of {} bytes",
                             path, size - begin, begin, row_bytes),
                 "it is cut, or of another kind"};
  }
  FixedRecords records;
  records.path_ = std::move(path);
  records.begin_ = begin;
  records.row_bytes_ = row_bytes;
  records.rows_ = (size - begin) / row_bytes;
  records.rows_per_unit_ = std::max<std::int64_t>(1, kUnitBytes / row_bytes);
  for (std::int64_t left = records.rows_; left > 0; left -= records.unit_rows_.back())
    records.unit_rows_.push_back(std::min(left, records.rows_per_unit_));
  return records;
}

Result<std::shared_ptr<arrow::Buffer>> FixedRecords::read(std::int64_t unit) const {
  ARROW_TRY(auto input, "cannot open it", arrow::io::ReadableFile::Open(path_));
  const std::int64_t bytes = unit_rows_[static_cast<std::size_t>(unit)] * row_bytes_;
  ARROW_TRY(auto buffer, "cannot read it",
            input->ReadAt(begin_ + unit * rows_per_unit_ * row_bytes_, bytes));
  if (buffer->size() != bytes) {
    return Error{Errc::Corrupt,
                 fmt::format("it has only {} of these {} bytes", buffer->size(), bytes),
                 "the file became shorter after the dataset was opened"};
  }
  return buffer;
}

Result<std::shared_ptr<arrow::Buffer>> FixedRecords::read_rows(
    std::int64_t unit, const std::vector<std::int64_t>& rows) const {
  ARROW_TRY(auto input, "cannot open it", arrow::io::ReadableFile::Open(path_));
  ARROW_TRY(std::shared_ptr<arrow::Buffer> buffer, "no memory for the rows",
            arrow::AllocateBuffer(static_cast<std::int64_t>(rows.size()) * row_bytes_));
  std::uint8_t* to = buffer->mutable_data();
  for (const std::int64_t row : rows) {
    ARROW_TRY(const std::int64_t read, "cannot read it",
              input->ReadAt(begin_ + (unit * rows_per_unit_ + row) * row_bytes_, row_bytes_, to));
    if (read != row_bytes_) {
      return Error{Errc::Corrupt,
                   fmt::format("it has only {} of {} bytes of a row", read, row_bytes_),
                   "the file became shorter after the dataset was opened"};
    }
    to += row_bytes_;
  }
  return buffer;
}

Result<FileStart> read_start(const std::string& path, std::int64_t bytes) {
  ARROW_TRY(auto input, fmt::format("cannot open {}", path), arrow::io::ReadableFile::Open(path));
  const std::string doing = fmt::format("cannot read {}", path);
  ARROW_TRY(const auto size, doing, input->GetSize());
  ARROW_TRY(const auto buffer, doing, input->ReadAt(0, std::min(bytes, size)));
  return FileStart{.bytes = buffer->ToString(), .size = size};
}

Result<std::shared_ptr<arrow::Array>> as_rows(std::shared_ptr<arrow::Array> values,
                                              const std::vector<std::int64_t>& shape) {
  for (auto length = shape.rbegin(); length != shape.rend(); ++length) {
    ARROW_TRY(values, "cannot lay the values out",
              arrow::FixedSizeListArray::FromArrays(values, static_cast<std::int32_t>(*length)));
  }
  return values;
}

std::shared_ptr<arrow::DataType> row_type(std::shared_ptr<arrow::DataType> value,
                                          const std::vector<std::int64_t>& shape) {
  for (auto length = shape.rbegin(); length != shape.rend(); ++length)
    value = arrow::fixed_size_list(std::move(value), static_cast<std::int32_t>(*length));
  return value;
}

}  // namespace train::data
