// This file does a supervisor's work on one rank's shard of a checkpoint: it puts the staged files
// into the pending checkpoint's folder, digests them, and makes them safe on disk. It blocks, so it
// runs on a thread pool; one buffer bounds its memory. It commits nothing: the launcher does
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

/// The identity of a checkpoint before it has a number: the `checkpoint_seq`-th of an attempt,
/// started under a generation.
struct PendingCheckpoint {
  Generation generation;
  Attempt attempt;
  CheckpointSeq checkpoint_seq;
  auto operator<=>(const PendingCheckpoint&) const = default;
};
/// Return the name of its folder: ".tmp-3-0.12".
std::string pending_name(const PendingCheckpoint& pending);
std::optional<PendingCheckpoint> parse_pending_name(std::string_view name);
/// Return the name of the folder where all its shards stay, in storage that cannot rename them into
/// place: "data-3-0.12".
std::string data_name(const PendingCheckpoint& pending);
std::optional<PendingCheckpoint> parse_data_name(std::string_view name);
/// Return the name of a shard's folder in there: "rank-0003".
std::string shard_name(Rank rank);
/// Parse the pending checkpoint from the place of a shard: "data-3-0.12/rank-0003".
std::optional<PendingCheckpoint> parse_shard_location(std::string_view location);

struct WriteShardOptions {
  bool move = true;  // take the staged files away where that needs no copy; false: always copy
  std::size_t buffer_bytes = 256 << 10;  // is still in the processor's cache when digested
};

/// Write `staged`, a folder of files, as the shard of `rank` into `checkpoints_folder` (made if
/// missing). Everything is fsynced when it returns. Files whose name begins with '.' are left out;
/// links and devices are refused. A moved file is read only if staged_files() finds no digest of
/// it. A file whose fsync fails is written anew under another name, once; the same file is never
/// synced twice. On an error the moved files are put back into `staged` and the shard is removed,
/// so that the caller may try again. The caller must then pass `move = false`, since a file that
/// once failed to sync must be copied. What is left of `staged` afterwards belongs to the caller.
/// NoSpace says how many bytes are needed and free.
Result<CheckpointShard> write_shard(FileSystem& fs, const std::string& checkpoints_folder,
                                    const PendingCheckpoint& pending, Rank rank,
                                    const std::string& staged,
                                    const WriteShardOptions& options = {},
                                    std::stop_token stop = {});

}  // namespace train
