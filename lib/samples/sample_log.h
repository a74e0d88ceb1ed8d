// Writes the samples of a run (lib/storage/FORMAT.md, section 9): tables that each cover a second
// go to samples.jsonl, which gets coarser with age and stays below a limit. All calls block. One
// thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/samples/sample_table.h"

namespace train {

inline constexpr std::uint64_t kSampleLogBytesMax = 64u << 20;
/// Lines of one kind that would exceed this in a second cover 10 s or a minute.
inline constexpr std::size_t kSampleBytesPerSecondMax = 32u << 10;

class SampleLog {
 public:
  /// `bytes_max` bounds the file. The file is opened, and made if missing, by the first add().
  explicit SampleLog(std::string path, std::uint64_t bytes_max = kSampleLogBytesMax)
      : path_(std::move(path)), bytes_max_(bytes_max) {}

  /// Append the table, or merge it with others of its kind to a line that covers more time. Tables
  /// of one kind come in the order of their times. After an error the table is lost, and a later
  /// call tries again.
  Result<Unit> add(SampleTable table);
  /// Append what waits to be merged with later tables.
  Result<Unit> flush();

 private:
  struct Pending {
    std::optional<SampleTable> table;  // merged so far
    std::int64_t span_ms = 1000;       // that a line of this kind covers
  };

  Result<Unit> append(Pending& pending);
  Result<Unit> write(const std::string& line);
  Result<Unit> open();
  Result<Unit> compact();

  std::string path_;
  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0, compact_at_ = 0;
  FileDescriptor file_;
  std::array<Pending, kSampleKinds.size()> pending_;
};

/// Replace the file `path`, mode 0600, by one with this text, without syncing it. Blocks.
Result<Unit> replace_unsynced(const std::string& path, const std::string& text);

}  // namespace train
