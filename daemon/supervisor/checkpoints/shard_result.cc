#include "daemon/supervisor/checkpoints/shard_result.h"

namespace train {

ShardWritten part_of(Rank rank, const CheckpointStaged& staged) {
  return {.rank = rank.value,
          .index = staged.index,
          .report_ordinal = staged.report_ordinal,
          .dir = {},
          .files = {},
          .metadata_json = staged.metadata_json,
          .error = staged.error,
          .error_code = staged.error_code};
}

void set_outcome(ShardWritten& part, const Result<CheckpointPart>& stored) {
  if (stored.has_error()) {
    part.error = stored.error().describe();
    part.error_code = to_string(stored.error().code);
    return;
  }
  part.dir = stored->folder;
  for (const PartFile& file : stored->files)
    part.files.push_back({file.path, file.bytes, to_hex(file.digest)});
}

}  // namespace train
