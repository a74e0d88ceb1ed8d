// Builds the message to the launcher about a shard: ShardWritten, from what the worker staged and
// how storing it went.
#pragma once

#include "lib/storage/checkpoint_writer.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/worker_messages.h"

namespace train {

/// Return the message for a shard that is not stored yet, or that the worker could not make.
ShardWritten shard_of(Rank rank, const CheckpointStaged& staged);
void set_error(ShardWritten& shard, const Error& error);
/// Set where the shard is, or why it is not stored.
void set_outcome(ShardWritten& shard, const Result<CheckpointShard>& stored);

}  // namespace train
