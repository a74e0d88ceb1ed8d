#include "lib/data/read/data_file.h"

#include <arrow/buffer.h>
#include <arrow/io/file.h>

#include <algorithm>
#include <deque>

#include "lib/data/plan/permutation.h"
#include "lib/data/read/fetcher.h"
#include "lib/data/read/object_place.h"
#include "lib/data/read/object_reads.h"

namespace train::data {
namespace {

constexpr std::int64_t kStreamWindow = 4 << 20;
constexpr std::int64_t kStreamFirst = 256 << 10;
constexpr std::size_t kRangesAhead = 2 * std::size_t{kFetchesMax};

using Buffers = std::vector<std::shared_ptr<arrow::Buffer>>;

}  // namespace

arrow::Result<std::int64_t> size_of(const DataFile& file) {
  if (file.place != nullptr) return file.bytes;
  ARROW_ASSIGN_OR_RAISE(const auto opened, arrow::io::ReadableFile::Open(file.path));
  return opened->GetSize();
}

std::uint64_t digest_of_version(const DataFile& file) {
  if (file.place == nullptr) return 0;
  std::uint64_t digest = 1;
  for (const char c : file.version) digest = mix(digest, static_cast<unsigned char>(c));
  return digest;
}

arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> open_file(
    const DataFile& file, std::vector<PlannedRange> plan) {
  if (file.place == nullptr) return arrow::io::ReadableFile::Open(file.path);
  return std::make_shared<ObjectFile>(file, std::move(plan));
}

arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> open_stream(const DataFile& file) {
  return open_file(
      file, {{.offset = 0, .bytes = file.bytes, .window = kStreamWindow, .first = kStreamFirst}});
}

void expect_reads(const DataFile& file, const std::vector<PlannedRange>& plan) {
  if (file.place == nullptr) return;
  for (const PlannedRange& range : plan) {
    for (std::int64_t done = 0; done < range.bytes;) {
      const std::int64_t size = std::min(first_fetch_bytes(range), range.bytes - done);
      file.place->expected().add(file, range.offset + done, size);
      done = range.window == 0 ? done + size : range.bytes;
    }
  }
}

arrow::Result<std::shared_ptr<arrow::Buffer>> read_at(const DataFile& file, std::int64_t offset,
                                                      std::int64_t bytes) {
  if (file.place == nullptr) {
    ARROW_ASSIGN_OR_RAISE(const auto opened, open_file(file));
    return opened->ReadAt(offset, bytes);
  }
  bytes = std::clamp<std::int64_t>(bytes, 0, std::max<std::int64_t>(0, file.bytes - offset));
  if (bytes > 0 && bytes <= kFetchBytesMax) return start_fetch(file, offset, bytes)->wait();
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(bytes));
  ARROW_RETURN_NOT_OK(fetch_into(file, offset, bytes, buffer->mutable_data()));
  return buffer;
}

arrow::Result<Buffers> read_all_ranges(const std::vector<WantedRange>& ranges) {
  Buffers all;
  std::deque<FetchPtr> ahead;
  std::size_t begun = 0;
  const auto is_one_fetch = [](const WantedRange& range) {
    return range.file->place != nullptr && range.bytes > 0 && range.bytes <= kFetchBytesMax;
  };
  for (const WantedRange& range : ranges) {
    for (; begun < ranges.size() && ahead.size() < kRangesAhead; ++begun) {
      const WantedRange& next = ranges[begun];
      ahead.push_back(is_one_fetch(next) ? start_fetch(*next.file, next.offset, next.bytes)
                                         : nullptr);
    }
    const FetchPtr fetch = std::move(ahead.front());
    ahead.pop_front();
    ARROW_ASSIGN_OR_RAISE(auto buffer,
                          fetch ? fetch->wait() : read_at(*range.file, range.offset, range.bytes));
    all.push_back(std::move(buffer));
  }
  return all;
}

}  // namespace train::data
