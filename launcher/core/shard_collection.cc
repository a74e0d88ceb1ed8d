#include "launcher/core/shard_collection.h"

#include <algorithm>

namespace train {

void ShardCollection::attempt_begins(Attempt attempt, const Placement& placement) {
  Group& group = groups_[attempt];
  group.world_size = placement.world_size;
  group.nodes = static_cast<int>(placement.nodes.size());
}

void ShardCollection::resolved(Attempt attempt, std::uint64_t checkpoint_seq) {
  if (is_over(attempt)) return;
  Group& group = groups_[attempt];
  group.resolved = std::max(group.resolved, checkpoint_seq);
  group.seen.erase(group.seen.begin(), group.seen.upper_bound(group.resolved));
}

ShardCollection::Next ShardCollection::written(const Shard& shard, NodeId node, bool brings) {
  if (is_over(shard.attempt)) return Next::Tell;
  Group& group = groups_[shard.attempt];
  if (shard.checkpoint_seq <= group.resolved) return Next::Tell;
  group.seen[shard.checkpoint_seq].insert(shard.rank);
  if (!brings || here_.contains(shard)) return Next::Tell;
  return bringing_.emplace(shard, node).second ? Next::Bring : Next::Wait;
}

bool ShardCollection::brought(const Shard& shard, NodeId node, bool is_here) {
  bringing_.erase(shard);
  if (is_here && !is_over(shard.attempt)) here_.insert(shard);
  const Source source{shard.attempt, node};
  if (!held_.contains(source) || brings_from(source)) return false;
  held_.erase(source);
  return !is_over(shard.attempt);
}

bool ShardCollection::group_gone(const Source& source) {
  if (is_over(source.first)) return false;
  groups_[source.first].gone.insert(source.second);
  if (!brings_from(source)) return false;
  held_.insert(source);
  return true;
}

void ShardCollection::lost(const Source& source) {
  held_.erase(source);
  if (!is_over(source.first)) groups_[source.first].gone.insert(source.second);
}

void ShardCollection::attempt_ended(Attempt attempt) {
  over_ = attempt;
  std::erase_if(held_, [&](const Source& source) { return source.first <= attempt; });
  std::erase_if(here_, [&](const Shard& shard) { return shard.attempt <= attempt; });
  groups_.erase(groups_.begin(), groups_.upper_bound(attempt));
}

std::set<Attempt> ShardCollection::attempts() const {
  std::set<Attempt> all;
  for (const auto& [attempt, group] : groups_) all.insert(attempt);
  return all;
}

bool ShardCollection::is_useless(Attempt attempt, std::uint64_t checkpoint_seq) const {
  if (is_over(attempt)) return true;
  const auto found = groups_.find(attempt);
  if (found == groups_.end()) return false;
  const Group& group = found->second;
  if (group.nodes == 0 || static_cast<int>(group.gone.size()) < group.nodes) return false;
  return std::any_of(group.seen.begin(), group.seen.end(), [&](const auto& entry) {
    return entry.first <= checkpoint_seq &&
           static_cast<int>(entry.second.size()) < group.world_size;
  });
}

bool ShardCollection::brings_from(const Source& source) const {
  return std::any_of(bringing_.begin(), bringing_.end(), [&](const auto& entry) {
    return entry.first.attempt == source.first && entry.second == source.second;
  });
}

}  // namespace train
