#include "launcher/core/failover_nodes.h"

#include <algorithm>
#include <utility>

namespace train {
namespace {

// If so many cannot, the next ones cannot either: the run's folder is on no shared storage.
constexpr std::size_t kUnfitMax = 8;
constexpr Duration kAskAgainAfter = std::chrono::minutes(10);  // then all may be asked again
constexpr Duration kAnswerLimit = seconds(50);  // for two checks; an older traind does not answer
constexpr Duration kAwayLimit = seconds(5);     // a link may break and be back

/// Return a number that differs for each node, in an order that differs for each seed (splitmix64
/// by Sebastiano Vigna).
std::uint64_t preference(std::uint64_t seed, NodeId node) {
  std::uint64_t x = seed + 0x9e3779b97f4a7c15ULL * (static_cast<std::uint64_t>(node.value) + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

FailoverNodes::Change FailoverNodes::up(NodeId node, bool attached, bool draining, TimePoint now) {
  Change change;
  change.of_note = up_.insert(node).second;
  away_.erase(node);
  change.of_note |= gone_.erase(node) > 0;
  const bool drains_now = draining && draining_.insert(node).second;
  change.of_note |= drains_now || (!draining && draining_.erase(node) > 0);
  Place* place = place_of(node);
  if (place != nullptr && drains_now) {
    change.cancel.push_back(node);
    ordered_.erase(node);
    leave(*place, change);
  } else if (place != nullptr && attached) {
    order(*place, node, now, change);
  } else if (place == nullptr && attached && ordered_.erase(node) > 0) {
    change.cancel.push_back(node);
  }
  return change;
}

FailoverNodes::Change FailoverNodes::down(NodeId node) {
  Change change;
  change.of_note = up_.erase(node) > 0;
  draining_.erase(node);
  away_.erase(node);
  gone_.erase(node);
  unfit_.erase(node);  // it may come back with the storage
  if (Place* place = place_of(node)) leave(*place, change);
  return change;
}

FailoverNodes::Change FailoverNodes::answered(NodeId node, bool can, const std::string& why,
                                              TimePoint now) {
  Change change;
  Place* place = place_of(node);
  if (place == nullptr) return change;
  if (can)
    change.of_note = !std::exchange(place->ready, true);
  else
    give_up(*place, why, now, change);
  return change;
}

FailoverNodes::Change FailoverNodes::tick(TimePoint now) {
  Change change;
  give_up_the_absent(now, change);
  if (!unfit_.empty() && now >= unfit_since_ + kAskAgainAfter) unfit_.clear();
  for (Place& place : chosen_) {
    if (place.node && !place.ready && now >= place.asked + kAnswerLimit) {
      change.cancel.push_back(*place.node);
      give_up(place, "its traind does not say whether it can: it may be of an older version", now,
              change);
    }
    if (place.node || unfit_.size() >= kUnfitMax) continue;
    if (const auto node = best()) order(place, *node, now, change);
  }
  return change;
}

// Its order ends with its traind, and it cannot vote.
void FailoverNodes::give_up_the_absent(TimePoint now, Change& change) {
  for (const auto& [node, since] : away_) {
    if (now < since + kAwayLimit || !gone_.insert(node).second) continue;
    change.of_note = true;
    if (Place* place = place_of(node)) leave(*place, change);
  }
}

std::set<NodeId> FailoverNodes::voters() const {
  std::set<NodeId> voters;
  for (const NodeId node : up_)
    if (!gone_.contains(node) && !draining_.contains(node)) voters.insert(node);
  return voters;
}

bool FailoverNodes::settled() const {
  return std::all_of(chosen_.begin(), chosen_.end(),
                     [](const Place& place) { return place.ready || !place.node; });
}

std::vector<NodeId> FailoverNodes::ready() const {
  std::vector<NodeId> nodes;
  for (const Place& place : chosen_)
    if (place.ready) nodes.push_back(*place.node);
  return nodes;
}

std::optional<std::pair<NodeId, std::string>> FailoverNodes::trouble() const {
  const bool some =
      std::any_of(chosen_.begin(), chosen_.end(), [](const Place& place) { return place.node; });
  if (some || unfit_.empty() || (unfit_.size() < kUnfitMax && best())) return std::nullopt;
  return *unfit_.begin();
}

FailoverNodes::Place* FailoverNodes::place_of(NodeId node) {
  const auto found = std::find_if(chosen_.begin(), chosen_.end(),
                                  [&](const Place& place) { return place.node == node; });
  return found == chosen_.end() ? nullptr : &*found;
}

bool FailoverNodes::may_be_chosen(NodeId node) const {
  return std::none_of(chosen_.begin(), chosen_.end(),
                      [&](const Place& place) { return place.node == node; }) &&
         !draining_.contains(node) && !gone_.contains(node) && !unfit_.contains(node);
}

std::optional<NodeId> FailoverNodes::best() const {
  std::optional<NodeId> found;
  for (const NodeId node : up_)
    if (may_be_chosen(node) && (!found || preference(seed_, node) < preference(seed_, *found)))
      found = node;
  return found;
}

void FailoverNodes::leave(Place& place, Change& change) {
  change.of_note |= place.ready;
  place = {};
}

void FailoverNodes::order(Place& place, NodeId node, TimePoint now, Change& change) {
  place.node = node;
  place.asked = now;
  ordered_.insert(node);
  change.prepare.push_back({node, static_cast<int>(&place - chosen_.data())});
}

void FailoverNodes::give_up(Place& place, const std::string& why, TimePoint now, Change& change) {
  if (unfit_.empty()) unfit_since_ = now;
  unfit_[*place.node] = why;
  ordered_.erase(*place.node);
  leave(place, change);
}

}  // namespace train
