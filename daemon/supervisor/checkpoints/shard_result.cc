#include "daemon/supervisor/checkpoints/shard_result.h"

namespace train {

ShardWritten shard_of(Rank rank, const CheckpointStaged& staged) {
  ShardWritten shard;
  shard.rank = rank;
  shard.checkpoint_seq = staged.checkpoint_seq;
  shard.report_seq = staged.report_seq;
  shard.request = staged.request;
  shard.metadata_json = staged.metadata_json;
  shard.error = staged.error;
  shard.no_space = errc_of(staged.error_code) == Errc::NoSpace;
  return shard;
}

void set_error(ShardWritten& shard, const Error& error) {
  shard.files.clear();
  shard.error = error.describe();
  shard.no_space = error.code == Errc::NoSpace;
}

void set_outcome(ShardWritten& shard, const Result<CheckpointShard>& stored) {
  if (stored.has_error()) return set_error(shard, stored.error());
  shard.dir = stored->dir;
  shard.files = stored->files;
}

}  // namespace train
