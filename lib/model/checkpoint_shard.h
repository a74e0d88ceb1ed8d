// One rank's share of a checkpoint, from when its node has stored it until the commit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/model/checkpoint_file.h"
#include "lib/model/fields.h"

namespace train {

struct CheckpointShard {
  Rank rank;
  // Relative to the pending checkpoint's folder: ".rank-0003", or ".rank-0003.1" after a failed
  // write. In an object store "rank-0003". If nodes keep the shards, relative to checkpoints/:
  // "data-3-0.12/rank-0003".
  std::string dir;
  std::vector<CheckpointFile> files = {};
  std::vector<std::string> nodes = {};  // the nodes whose disks hold it; empty: it is in storage
  bool operator==(const CheckpointShard&) const = default;
  TRAIN_FIELDS(rank, dir, files, nodes)
};

// The node's report on a shard: that it is safe, or why it is not.
struct StagedShard : CheckpointShard {
  std::uint64_t checkpoint_seq = 0;  // the rank's n-th checkpoint of the attempt, from 1
  std::uint64_t report_seq = 0;
  std::string metadata_json = {};
  std::string error = {};     // empty: no error
  bool no_space = false;      // the error is lack of space
  std::uint64_t request = 0;  // of a checkpoint that somebody asked for: the request's number
  bool operator==(const StagedShard&) const = default;
  TRAIN_FIELDS(rank, checkpoint_seq, report_seq, dir, files, nodes, metadata_json, error, no_space,
               request)
};

}  // namespace train
