#include "launcher/core/kept_group.h"

#include <algorithm>
#include <utility>

namespace train {

void KeptGroup::node_lists(NodeId node, bool supervisor, TimePoint now) {
  if (!kept_ || useless()) return;
  if (!supervisor) {
    there_.erase(node);
  } else if (there_.try_emplace(node, Told::Nothing).second) {
    told_by_ = now + kKeptToldWithin;
  }
}

void KeptGroup::supervisor_tells(NodeId node, bool they_wait) {
  if (kept_) there_[node] = they_wait ? Told::TheyWait : Told::Otherwise;
}

bool KeptGroup::all_tell() const {
  return std::none_of(there_.begin(), there_.end(),
                      [](const auto& node) { return node.second == Told::Nothing; });
}

bool KeptGroup::waits(TimePoint now) const {
  return kept_ && !useless() && !all_tell() && now < *told_by_;
}

std::optional<TimePoint> KeptGroup::next_deadline() const {
  return kept_ && !useless() && !all_tell() ? told_by_ : std::nullopt;
}

std::string KeptGroup::why_not(const Placement& placement, Attempt next) const {
  if (useless()) return kept_->differs;
  if (next > kept_->attempt) return "another run has had them since";
  if (there_.empty()) return "they have ended";
  for (const PlacedNode& placed : kept_->placement.nodes) {
    const auto found = there_.find(placed.node);
    if (found == there_.end()) return "some of them have ended";
    if (found->second == Told::Nothing) return "a node does not tell of them";
    if (found->second == Told::Otherwise) return "another run has had them since";
  }
  if (placement.nodes != kept_->placement.nodes) return "the run has room on other nodes";
  return "";
}

std::optional<KeptGroup::Decision> KeptGroup::decide(const Placement& placement, Attempt next) {
  if (!kept_) return std::nullopt;
  Decision decision{
      .attempt = kept_->attempt, .why_not = why_not(placement, next), .useless_on = {}};
  if (decision.why_not.empty()) {
    used_by_ = kept_->attempt;
  } else {
    decision.attempt = std::max(kept_->attempt.next(), next);
    for (const auto& [node, told] : there_) decision.useless_on.insert(node);
  }
  kept_.reset();
  return decision;
}

}  // namespace train
