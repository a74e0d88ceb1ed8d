// This file does a supervisor's work on one rank's shard of a checkpoint: it puts the staged files
// into the pending checkpoint's folder, digests them, and makes them safe on disk. It blocks, so it
// runs on a thread pool; it needs only one buffer of memory. The launcher does the commit
// (checkpoint_store.h).
#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lib/model/checkpoint_shard.h"
#include "lib/storage/manifest.h"

namespace train {

/// The identity of a checkpoint before it has a number: the `checkpoint_seq`-th of an attempt that
/// began under this generation.
struct PendingCheckpoint {
  Generation generation;
  Attempt attempt;
  CheckpointSeq checkpoint_seq;
  auto operator<=>(const PendingCheckpoint&) const = default;
};
/// Return the name of its folder: ".tmp-3-0.12".
std::string pending_name(const PendingCheckpoint& pending);
std::optional<PendingCheckpoint> parse_pending_name(std::string_view name);
/// Return the name of the folder where its shards stay if they are not renamed into place:
/// "data-3-0.12".
std::string data_name(const PendingCheckpoint& pending);
std::optional<PendingCheckpoint> parse_data_name(std::string_view name);
/// Return the name of a shard's folder in that folder: "rank-0003".
std::string shard_name(Rank rank);
/// Parse the pending checkpoint from the location of a shard: "data-3-0.12/rank-0003".
std::optional<PendingCheckpoint> parse_shard_location(std::string_view location);

struct WriteShardOptions {
  // Move the staged files if they need no copy; false: always copy.
  bool move = true;
  std::size_t buffer_bytes = 256 << 10;  // so small that it is still cached when digested
};

/// Write `staged`, a folder of files, as the shard of `rank` into `checkpoints_folder` (created if
/// missing). Everything is fsynced when this returns. Leaves out files whose name begins with '.';
/// refuses links and devices. A moved file is read only if staged_files() has no digest of it. If
/// the fsync of a file fails, its bytes are written once more to a new file; no file is synced
/// twice. On an error the moved files are put back into `staged` and the shard is removed, so that
/// the caller can try again. The caller must then pass `move = false`, since a file whose sync has
/// failed must be copied. The rest of `staged` belongs to the caller. NoSpace tells how many bytes
/// are needed and free.
Result<CheckpointShard> write_shard(FileSystem& fs, const std::string& checkpoints_folder,
                                    const PendingCheckpoint& pending, Rank rank,
                                    const std::string& staged,
                                    const WriteShardOptions& options = {},
                                    std::stop_token stop = {});

}  // namespace train
