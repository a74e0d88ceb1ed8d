#include "launcher/core/standby_pool.h"

#include <utility>

namespace train {

bool StandbyPool::due(const RankTable& ranks, bool progressed, TimePoint now) {
  if (wanted_ == 0 || asked_ || !ranks.all_joined()) return false;
  if (!ask_at_) ask_at_ = now + kStandbyDelay;
  if (!progressed && now < *ask_at_) return false;
  return asked_ = true;
}

std::vector<NodeId> StandbyPool::attempt_began() {
  std::vector<NodeId> had = nodes();
  waiting_.clear();
  asked_ = false;
  ask_at_.reset();
  return had;
}

bool StandbyPool::was_useless(const RankTable& ranks) {
  return wanted_ > 0 && !ranks.any_joined() && !std::exchange(told_useless_, true);
}

int StandbyPool::waiting_on(NodeId node) const {
  const auto found = waiting_.find(node);
  return found == waiting_.end() ? 0 : found->second;
}

std::vector<NodeId> StandbyPool::nodes() const {
  std::vector<NodeId> nodes;
  for (const auto& [node, workers] : waiting_) nodes.push_back(node);
  return nodes;
}

std::optional<TimePoint> StandbyPool::next_deadline() const {
  return asked_ ? std::nullopt : ask_at_;
}

}  // namespace train
