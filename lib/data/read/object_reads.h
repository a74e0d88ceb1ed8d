// Reads one object for a format: a file for Arrow whose bytes come by fetches.
#pragma once

#include <arrow/io/interfaces.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "lib/data/read/fetcher.h"

namespace train::data {

/// A stretch of an object whose fetches begin before their bytes are asked for (PlannedRange).
class AheadRange {
 public:
  AheadRange(DataFile file, const PlannedRange& range);

  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  /// Copy bytes that lie within. What was dropped before is fetched again.
  arrow::Status read(std::int64_t position, std::int64_t bytes, std::uint8_t* to);

 private:
  struct Piece {
    std::int64_t begin = 0, end = 0;
    FetchPtr fetch;
  };
  bool keeps_all() const { return window_ == 0; }
  void fetch_until(std::int64_t position);
  Piece piece_at(std::int64_t position);

  const DataFile file_;
  const std::int64_t begin_, end_, window_;
  std::int64_t growing_;      // the next piece's size
  std::int64_t next_;         // where it begins
  std::deque<Piece> pieces_;  // neighbours, up to next_
};

class ObjectFile final : public arrow::io::RandomAccessFile {
 public:
  ObjectFile(DataFile file, std::vector<PlannedRange> plan);

  arrow::Status Close() override;
  bool closed() const override { return closed_; }
  arrow::Result<std::int64_t> Tell() const override { return position_; }
  arrow::Status Seek(std::int64_t position) override;
  arrow::Result<std::int64_t> GetSize() override { return file_.bytes; }
  arrow::Result<std::int64_t> Read(std::int64_t bytes, void* to) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t bytes) override;
  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t bytes, void* to) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position,
                                                       std::int64_t bytes) override;

 private:
  std::int64_t left_at(std::int64_t position, std::int64_t bytes) const;
  arrow::Status read_unplanned(std::int64_t position, std::int64_t bytes, std::uint8_t* to);

  const DataFile file_;
  std::mutex mutex_;             // Arrow's readers may read on several threads
  std::deque<AheadRange> plan_;  // by offset
  // Small unplanned reads are often followed by neighbours: footers, and the parts of a message.
  std::int64_t kept_begin_ = 0;
  std::shared_ptr<arrow::Buffer> kept_;
  std::int64_t position_ = 0;
  bool closed_ = false;
};

/// Return how many bytes the first fetch of a range has at most.
constexpr std::int64_t first_fetch_bytes(const PlannedRange& range) {
  if (range.window == 0) return kFetchBytesMax;
  return std::min(range.first > 0 ? range.first : range.window, kFetchBytesMax);
}

/// Copy bytes of an object, by several fetches at once if they are many.
arrow::Status fetch_into(const DataFile& file, std::int64_t position, std::int64_t bytes,
                         std::uint8_t* to);

}  // namespace train::data
