#include "lib/data/formats/fixed_records.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/read/fetcher.h"

namespace train::data {

Result<FixedRecords> FixedRecords::make(DataFile file, std::int64_t begin, std::int64_t row_bytes,
                                        std::int64_t size) {
  if (size < begin || (size - begin) % row_bytes != 0) {
    return Error{Errc::Corrupt,
                 fmt::format("{} has {} bytes after its first {}, which are no whole number of "
                             "rows of {} bytes",
                             file.path, size - begin, begin, row_bytes),
                 "it is cut, or of another kind"};
  }
  FixedRecords records;
  records.file_ = std::move(file);
  records.begin_ = begin;
  records.row_bytes_ = row_bytes;
  records.rows_ = (size - begin) / row_bytes;
  records.rows_per_unit_ = std::max<std::int64_t>(1, kUnitBytes / row_bytes);
  for (std::int64_t left = records.rows_; left > 0; left -= records.unit_rows_.back())
    records.unit_rows_.push_back(std::min(left, records.rows_per_unit_));
  return records;
}

PlannedRange FixedRecords::range(std::int64_t unit) const {
  return {.offset = begin_ + unit * rows_per_unit_ * row_bytes_,
          .bytes = unit_rows_[static_cast<std::size_t>(unit)] * row_bytes_};
}

Result<std::shared_ptr<arrow::Buffer>> FixedRecords::read(std::int64_t unit) const {
  const PlannedRange at = range(unit);
  ARROW_TRY(auto buffer, "cannot read it", read_at(file_, at.offset, at.bytes));
  if (buffer->size() != at.bytes) {
    return Error{Errc::Corrupt,
                 fmt::format("it has only {} of these {} bytes", buffer->size(), at.bytes),
                 "the file became shorter after the dataset was opened"};
  }
  return buffer;
}

void FixedRecords::expect(std::int64_t unit) const { expect_reads(file_, {range(unit)}); }

void FixedRecords::expect_rows(std::int64_t unit, const std::vector<std::int64_t>& rows) const {
  if (file_.place == nullptr) return;
  for (const WantedRange& stretch : stretches_of(unit, rows))
    expect_reads(file_, {{.offset = stretch.offset, .bytes = stretch.bytes}});
}

std::int64_t FixedRecords::offset_of(std::int64_t unit, std::int64_t row) const {
  return begin_ + (unit * rows_per_unit_ + row) * row_bytes_;
}

/// Return the stretches of the file that have the rows, several near each other in one of them, of
/// at most kFetchBytesMax.
std::vector<WantedRange> FixedRecords::stretches_of(std::int64_t unit,
                                                    const std::vector<std::int64_t>& rows) const {
  constexpr std::int64_t kHoleMax = 64 << 10;
  std::vector<std::int64_t> offsets;
  for (const std::int64_t row : rows) offsets.push_back(offset_of(unit, row));
  std::sort(offsets.begin(), offsets.end());
  std::vector<WantedRange> stretches;
  for (const std::int64_t offset : offsets) {
    const std::int64_t end = offset + row_bytes_;
    WantedRange* last = stretches.empty() ? nullptr : &stretches.back();
    if (last != nullptr && offset <= last->offset + last->bytes + kHoleMax &&
        end - last->offset <= kFetchBytesMax)
      last->bytes = std::max(last->bytes, end - last->offset);
    else
      stretches.push_back({&file_, offset, row_bytes_});
  }
  return stretches;
}

/// Copy rows of an object, many of them with one request.
Result<Unit> FixedRecords::copy_rows(std::int64_t unit, const std::vector<std::int64_t>& rows,
                                     std::uint8_t* to) const {
  const auto stretches = stretches_of(unit, rows);
  ARROW_TRY(const auto buffers, "cannot read it", read_all_ranges(stretches));
  for (const std::int64_t row : rows) {
    const std::int64_t offset = offset_of(unit, row);
    const auto after =
        std::upper_bound(stretches.begin(), stretches.end(), offset,
                         [](std::int64_t at, const WantedRange& one) { return at < one.offset; });
    const auto at = static_cast<std::size_t>(after - stretches.begin()) - 1;
    std::memcpy(to, buffers[at]->data() + (offset - stretches[at].offset),
                static_cast<std::size_t>(row_bytes_));
    to += row_bytes_;
  }
  return Unit{};
}

Result<std::shared_ptr<arrow::Buffer>> FixedRecords::read_rows(
    std::int64_t unit, const std::vector<std::int64_t>& rows) const {
  ARROW_TRY(std::shared_ptr<arrow::Buffer> buffer, "no memory for the rows",
            arrow::AllocateBuffer(static_cast<std::int64_t>(rows.size()) * row_bytes_));
  std::uint8_t* to = buffer->mutable_data();
  if (file_.place != nullptr) {
    TRY_VOID(copy_rows(unit, rows, to));
    return buffer;
  }
  ARROW_TRY(auto input, "cannot open it", open_file(file_));
  for (const std::int64_t row : rows) {
    ARROW_TRY(const std::int64_t read, "cannot read it",
              input->ReadAt(offset_of(unit, row), row_bytes_, to));
    if (read != row_bytes_) {
      return Error{Errc::Corrupt,
                   fmt::format("it has only {} of {} bytes of a row", read, row_bytes_),
                   "the file became shorter after the dataset was opened"};
    }
    to += row_bytes_;
  }
  return buffer;
}

Result<FileStart> read_start(const DataFile& file, std::int64_t bytes) {
  ARROW_TRY(auto input, fmt::format("cannot open {}", file.path), open_file(file));
  const std::string doing = fmt::format("cannot read {}", file.path);
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
