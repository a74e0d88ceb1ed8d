// Reads the samples of a run, while its launcher writes them or later. All calls block, take at
// most kSampleFileBytesMax of a file into account, and hold one line and the answer in memory.
// Lines that are torn, too long or not ours are passed over. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/samples/sample_table.h"

namespace train {

/// The launcher keeps the file below kSampleLogBytesMax; a reader believes no larger one than this.
inline constexpr std::uint64_t kSampleFileBytesMax = 256u << 20;

struct SampleQuery {
  SampleKind kind = SampleKind::Ranks;
  std::int64_t from_ms = 0;  // wall time since 1970
  std::int64_t to_ms = std::numeric_limits<std::int64_t>::max();
  std::optional<std::uint32_t> attempt = std::nullopt;  // none: all
  std::vector<std::string> fields = {};                 // none: all
  std::vector<std::string> rows = {};                   // "3", "node-a", "node-a/0"; none: all
  /// Neighbours are merged until there are no more tables than this (at least 4).
  std::size_t tables_max = 1000;
};

/// Return the tables of RunFolder::samples() whose time ends after `from_ms` and not after `to_ms`,
/// in the order in which they were written. Tables of different attempts are not merged. An empty
/// result if there is no file; Io if it cannot be read.
Result<std::vector<SampleTable>> read_samples(const std::string& path, const SampleQuery& query);
/// The same for a file that is open.
Result<std::vector<SampleTable>> read_samples(const FileDescriptor& file, const SampleQuery& query);

/// Return the newest values: a table of each kind, from RunFolder::newest_samples(), which a
/// running launcher replaces each second (of very many ranks: less often). Here, SampleKind::Ranks
/// has all ranks. After the launcher, the file stays: compare `end_ms` with the time. An empty
/// result if there is no file.
Result<std::vector<SampleTable>> read_newest_samples(const std::string& path);
Result<std::vector<SampleTable>> read_newest_samples(const FileDescriptor& file);

}  // namespace train
