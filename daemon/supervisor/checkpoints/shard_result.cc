#include "daemon/supervisor/checkpoints/shard_result.h"

namespace train {

ShardWritten part_of(Rank rank, const CheckpointStaged& staged) {
  ShardWritten part;
  part.rank = rank;
  part.checkpoint_seq = staged.checkpoint_seq;
  part.report_seq = staged.report_seq;
  part.metadata_json = staged.metadata_json;
  part.error = staged.error;
  part.no_space = errc_of(staged.error_code) == Errc::NoSpace;
  return part;
}

void set_error(ShardWritten& part, const Error& error) {
  part.files.clear();
  part.error = error.describe();
  part.no_space = error.code == Errc::NoSpace;
}

void set_outcome(ShardWritten& part, const Result<CheckpointShard>& stored) {
  if (stored.has_error()) return set_error(part, stored.error());
  part.dir = stored->dir;
  part.files = stored->files;
}

}  // namespace train
