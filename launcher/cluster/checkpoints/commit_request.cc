#include "launcher/cluster/checkpoints/commit_request.h"

#include <boost/json.hpp>

namespace train {

CommitRequest commit_request(const Commit& action, Generation generation,
                             const std::string& created, const Metrics& metrics) {
  CommitRequest request{
      .pending = {generation, action.attempt, CheckpointSeq{action.checkpoint_seq}},
      .number = CheckpointNumber{action.number},
      .world_size = static_cast<int>(action.shards.size()),
      .shards = {},
      .created = created,
      .metrics = metrics,
      .metadata = {}};
  for (const StagedShard& shard : action.shards) {
    request.shards.push_back(shard);
    if (shard.rank == Rank{0} && !shard.metadata_json.empty()) {
      boost::system::error_code ec;
      auto metadata = boost::json::parse(shard.metadata_json, ec);
      if (!ec && metadata.is_object()) request.metadata = std::move(metadata.as_object());
    }
  }
  return request;
}

}  // namespace train
