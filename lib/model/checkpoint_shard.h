// One rank's share of a checkpoint, from the moment when its node has stored it to the commit.
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
  // write. Where shards are not moved, relative to checkpoints/: "data-3-0.12/rank-0003".
  std::string dir;
  std::vector<CheckpointFile> files = {};
  std::vector<std::string> nodes = {};  // the nodes whose disks hold it; none: it is in storage
  bool operator==(const CheckpointShard&) const = default;
  TRAIN_FIELDS(rank, dir, files, nodes)
};

struct StagedShard : CheckpointShard {  // the node's report: it is safe, or why it is not
  std::uint64_t checkpoint_seq = 0;     // the rank's n-th checkpoint of the attempt, from 1
  std::uint64_t report_seq = 0;
  std::string metadata_json = {};
  std::string error = {};  // empty: fine
  bool no_space = false;   // the error is a lack of space
  bool operator==(const StagedShard&) const = default;
  TRAIN_FIELDS(rank, checkpoint_seq, report_seq, dir, files, nodes, metadata_json, error, no_space)
};

}  // namespace train
