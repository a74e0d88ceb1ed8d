#include "lib/data/read/object_reads.h"

#include <arrow/buffer.h>

#include <algorithm>
#include <cstring>

namespace train::data {
namespace {

constexpr std::int64_t kUnplannedBytes = 1 << 20;  // of small reads that were not planned
constexpr std::int64_t kTailBytes = 64 << 10;      // where most formats have their footer
constexpr std::size_t kFetchesAhead = 4;           // of one large read

arrow::Result<std::shared_ptr<arrow::Buffer>> allocated(std::int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(bytes));
  return buffer;
}

}  // namespace

arrow::Status fetch_into(const DataFile& file, std::int64_t position, std::int64_t bytes,
                         std::uint8_t* to) {
  std::deque<std::pair<std::int64_t, FetchPtr>> ahead;
  std::int64_t asked = 0, copied = 0;
  while (copied < bytes) {
    while (asked < bytes && ahead.size() < kFetchesAhead) {
      const std::int64_t size = std::min(kFetchBytesMax, bytes - asked);
      ahead.emplace_back(size, start_fetch(file, position + asked, size));
      asked += size;
    }
    ARROW_ASSIGN_OR_RAISE(const auto piece, ahead.front().second->wait());
    std::memcpy(to + copied, piece->data(), static_cast<std::size_t>(piece->size()));
    copied += piece->size();
    ahead.pop_front();
  }
  return arrow::Status::OK();
}

AheadRange::AheadRange(DataFile file, const PlannedRange& range)
    : file_(std::move(file)),
      begin_(range.offset),
      end_(range.offset + range.bytes),
      window_(std::min(range.window, kFetchBytesMax)),
      growing_(first_fetch_bytes(range)),
      next_(begin_) {
  fetch_until(keeps_all() ? end_ : begin_ + 1);
}

/// Start fetches until they reach beyond the byte before `position`.
void AheadRange::fetch_until(std::int64_t position) {
  while (next_ < std::min(position, end_)) {
    const std::int64_t size = std::min(keeps_all() ? kFetchBytesMax : growing_, end_ - next_);
    pieces_.push_back({next_, next_ + size, start_fetch(file_, next_, size)});
    next_ += size;
    growing_ = std::min(4 * growing_, window_);
  }
}

/// Return the piece that has the byte at `position`.
AheadRange::Piece AheadRange::piece_at(std::int64_t position) {
  if (!keeps_all()) {
    while (!pieces_.empty() && pieces_.front().end <= position) pieces_.pop_front();
    const std::int64_t first = pieces_.empty() ? next_ : pieces_.front().begin;
    if (position < first || position > next_) {
      pieces_.clear();
      next_ = position;
    }
  }
  fetch_until(position + 1);
  Piece piece = *std::find_if(pieces_.begin(), pieces_.end(),
                              [&](const Piece& one) { return position < one.end; });
  if (!keeps_all()) fetch_until(piece.end + 1);  // the next one comes while this one is used
  return piece;
}

arrow::Status AheadRange::read(std::int64_t position, std::int64_t bytes, std::uint8_t* to) {
  while (bytes > 0) {
    const Piece piece = piece_at(position);
    ARROW_ASSIGN_OR_RAISE(const auto buffer, piece.fetch->wait());
    const std::int64_t count = std::min(bytes, piece.end - position);
    std::memcpy(to, buffer->data() + (position - piece.begin), static_cast<std::size_t>(count));
    position += count;
    bytes -= count;
    to += count;
  }
  return arrow::Status::OK();
}

ObjectFile::ObjectFile(DataFile file, std::vector<PlannedRange> plan) : file_(std::move(file)) {
  std::sort(plan.begin(), plan.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  for (const PlannedRange& range : plan) {
    if (range.bytes > 0) plan_.emplace_back(file_, range);
  }
}

arrow::Status ObjectFile::Close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  plan_.clear();
  kept_.reset();
  return arrow::Status::OK();
}

arrow::Status ObjectFile::Seek(std::int64_t position) {
  if (position < 0) return arrow::Status::Invalid("a negative position");
  position_ = position;
  return arrow::Status::OK();
}

arrow::Result<std::int64_t> ObjectFile::Read(std::int64_t bytes, void* to) {
  ARROW_ASSIGN_OR_RAISE(const std::int64_t got, ReadAt(position_, bytes, to));
  position_ += got;
  return got;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ObjectFile::Read(std::int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, bytes));
  position_ += buffer->size();
  return buffer;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> ObjectFile::ReadAt(std::int64_t position,
                                                                 std::int64_t bytes) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, allocated(left_at(position, bytes)));
  ARROW_RETURN_NOT_OK(ReadAt(position, buffer->size(), buffer->mutable_data()));
  return buffer;
}

/// Return how many of `bytes` bytes the object has there.
std::int64_t ObjectFile::left_at(std::int64_t position, std::int64_t bytes) const {
  return std::clamp<std::int64_t>(bytes, 0, std::max<std::int64_t>(0, file_.bytes - position));
}

arrow::Result<std::int64_t> ObjectFile::ReadAt(std::int64_t position, std::int64_t bytes,
                                               void* to) {
  if (position < 0) return arrow::Status::Invalid("a negative position");
  const std::lock_guard lock(mutex_);
  if (closed_) return arrow::Status::Invalid("the file is closed");
  const std::int64_t all = left_at(position, bytes);
  auto* out = static_cast<std::uint8_t*>(to);
  for (std::int64_t left = all; left > 0;) {
    const auto range = std::find_if(plan_.begin(), plan_.end(),
                                    [&](const AheadRange& one) { return position < one.end(); });
    const bool planned = range != plan_.end() && range->begin() <= position;
    const std::int64_t until = planned                ? range->end()
                               : range != plan_.end() ? range->begin()
                                                      : file_.bytes;
    const std::int64_t count = std::min(left, until - position);
    ARROW_RETURN_NOT_OK(planned ? range->read(position, count, out)
                                : read_unplanned(position, count, out));
    position += count;
    out += count;
    left -= count;
  }
  return all;
}

arrow::Status ObjectFile::read_unplanned(std::int64_t position, std::int64_t bytes,
                                         std::uint8_t* to) {
  if (bytes >= kUnplannedBytes) return fetch_into(file_, position, bytes, to);
  const bool kept = kept_ != nullptr && position >= kept_begin_ &&
                    position + bytes <= kept_begin_ + kept_->size();
  if (!kept) {
    // Footers are read from the end: first their length, then what is before it.
    const std::int64_t begin =
        std::min(position, std::max<std::int64_t>(0, file_.bytes - kTailBytes));
    const std::int64_t size = std::min(kUnplannedBytes, file_.bytes - begin);
    kept_.reset();
    ARROW_ASSIGN_OR_RAISE(kept_, start_fetch(file_, begin, size)->wait());
    kept_begin_ = begin;
  }
  std::memcpy(to, kept_->data() + (position - kept_begin_), static_cast<std::size_t>(bytes));
  return arrow::Status::OK();
}

}  // namespace train::data
