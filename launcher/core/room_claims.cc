#include "launcher/core/room_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace train {
namespace {

constexpr std::size_t kNamed = 3;

std::string describe(const PoolRun& run) {
  std::string text = run.run_name;
  std::string more = run.owner;
  if (run.place.priority != 0)
    more += fmt::format("{}priority {}", more.empty() ? "" : ", ", run.place.priority);
  return more.empty() ? text : fmt::format("{} ({})", text, more);
}

/// Return where the group would be if the nodes were free.
Placement place_when_free(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes,
                          const std::vector<IngestNeed>& ingest) {
  return place(scaling, all_free(nodes), std::numeric_limits<std::size_t>::max(), {}, ingest);
}

/// Return what the workers of other roles on a node claim.
Resources claim_of_others(const PlacedNode& placed, const ScalingConfig& scaling) {
  Resources sum;
  for (const PlacedRole& other : placed.others) {
    // The spec of an attempt that is found again may have other roles.
    const auto role = static_cast<std::size_t>(other.role) - 1;
    if (role >= scaling.other_roles.size()) continue;
    const Resources& each = scaling.other_roles[role].resources_per_worker;
    for (const auto& [name, value] : each.custom) sum.custom[name] += other.workers * value;
    sum.cpu += other.workers * each.cpu;
    sum.gpu += other.workers * each.gpu;
    sum.memory_bytes += static_cast<std::uint64_t>(other.workers) * each.memory_bytes;
  }
  return sum;
}

void add(Resources& sum, const Resources& more) {
  sum.cpu += more.cpu;
  sum.gpu += more.gpu;
  sum.memory_bytes += more.memory_bytes;
  for (const auto& [name, value] : more.custom) sum.custom[name] += value;
}

}  // namespace

RoomClaims::RoomClaims(const JobSpec& spec, std::string run_id, bool begun, std::int64_t since_ms)
    : scaling_(spec.scaling_config), ingest_(ingest_needs(spec)), run_id_(std::move(run_id)) {
  place_.priority = spec.run_config.priority;
  place_.begun = begun;
  place_.since_ms = since_ms;
}

std::optional<KeepRoom> RoomClaims::again(NodeId node) const {
  const auto told = told_.find(node);
  return told == told_.end() ? std::nullopt : std::optional(told->second);
}

std::vector<KeepRoom> RoomClaims::wait(const std::vector<NodeCapacity>& nodes, int share,
                                       TimePoint now) {
  if (!waits_since_) waits_since_ = now;
  placed_told_ = place_.placed = false;
  place_.share = share / kShareStep * kShareStep;
  place_.waited_long = now >= *waits_since_ + kWaitsLong;
  if (!scaling_.other_roles.empty()) return wait_with_roles(nodes);
  std::map<NodeId, int> rooms = rooms_when_free(scaling_, nodes);
  const bool fits = !rooms.empty() &&
                    (ingest_.empty() || place_when_free(scaling_, nodes, ingest_).world_size > 0);
  if (!fits) rooms.clear();
  std::map<NodeId, KeepRoom> wanted;
  for (const NodeCapacity& node : nodes) {
    const auto room = rooms.find(node.node);
    const int workers = room == rooms.end() ? 0 : room->second;
    wanted[node.node] = {node.node, place_, scaling_.num_workers.min, workers,
                         fits ? ingest_when_free(node, workers > 0) : Resources{}};
  }
  return tell(std::move(wanted));
}

/// Wait for one placement of the least group: which nodes do for a role depends on where the others
/// are.
std::vector<KeepRoom> RoomClaims::wait_with_roles(const std::vector<NodeCapacity>& nodes) {
  ScalingConfig least = scaling_;
  least.num_workers.max = scaling_.num_workers.min;
  std::map<NodeId, KeepRoom> wanted = rooms_of(place_when_free(least, nodes, ingest_));
  for (const NodeCapacity& node : nodes)
    wanted.try_emplace(node.node,
                       KeepRoom{node.node, place_, scaling_.num_workers.min, 0, Resources{}});
  return tell(std::move(wanted));
}

/// Return what the least number of ingest workers needs on a node that may have them all.
Resources RoomClaims::ingest_when_free(const NodeCapacity& node, bool has_workers) const {
  Resources sum;
  for (const IngestNeed& need : ingest_) {
    if (!may_have(node, need, has_workers)) continue;
    sum.cpu += need.spec.workers.min * need.spec.resources_per_worker.cpu;
    sum.memory_bytes += static_cast<std::uint64_t>(need.spec.workers.min) *
                        need.spec.resources_per_worker.memory_bytes;
  }
  return sum;
}

/// Return what the placement needs on each of its nodes.
std::map<NodeId, KeepRoom> RoomClaims::rooms_of(const Placement& placement) const {
  std::map<NodeId, KeepRoom> rooms;
  for (const PlacedNode& at : placement.nodes)
    rooms[at.node] = {at.node, place_, placement.world_size, at.local_world_size, {}};
  for (const PlacedIngest& at : placement.ingest)
    rooms.try_emplace(at.node, KeepRoom{at.node, place_, placement.world_size, 0, {}});
  if (!placement.ingest.empty())
    for (auto& [node, room] : rooms) room.ingest = ingest_claim(placement, node, ingest_);
  for (const PlacedNode& at : placement.nodes)
    add(rooms.at(at.node).ingest, claim_of_others(at, scaling_));
  return rooms;
}

std::vector<KeepRoom> RoomClaims::begins(const Placement& placement) {
  placed_told_ = false;
  const std::map<NodeId, KeepRoom> rooms = rooms_of(placement);
  std::map<NodeId, KeepRoom> wanted;
  for (const auto& [node, told] : told_) {
    const auto room = rooms.find(node);
    if (room == rooms.end()) continue;
    KeepRoom& keep = wanted[node] = told;
    const Resources& ingest = room->second.ingest;
    keep.workers_here = std::min(keep.workers_here, room->second.workers_here);
    keep.ingest.cpu = std::min(keep.ingest.cpu, ingest.cpu);
    keep.ingest.gpu = std::min(keep.ingest.gpu, ingest.gpu);
    for (auto& [name, value] : keep.ingest.custom) {
      const auto needed = ingest.custom.find(name);
      value = needed == ingest.custom.end() ? 0 : std::min(value, needed->second);
    }
    keep.ingest.memory_bytes = std::min(keep.ingest.memory_bytes, ingest.memory_bytes);
  }
  return tell(std::move(wanted));
}

std::vector<KeepRoom> RoomClaims::placed(const Placement& placement) {
  if (std::exchange(placed_told_, true)) return {};
  place_.placed = place_.begun = true;
  place_.waited_long = false;
  place_.share = 0;
  waits_since_.reset();
  return tell(rooms_of(placement));
}

std::vector<KeepRoom> RoomClaims::nothing() { return tell({}); }

std::vector<KeepRoom> RoomClaims::tell(std::map<NodeId, KeepRoom> wanted) {
  for (const auto& [node, told] : told_) wanted.try_emplace(node, KeepRoom{.node = node});
  std::vector<KeepRoom> news;
  for (const auto& [node, keep] : wanted) {
    const auto told = told_.find(node);
    if (told == told_.end() || told->second != keep) news.push_back(keep);
  }
  told_ = std::move(wanted);
  return news;
}

std::string RoomClaims::runs_before(std::vector<PoolRun> others) const {
  std::erase_if(others, [&](const PoolRun& other) {
    return !goes_before(other.place, other.run_id, place_, run_id_);
  });
  std::sort(others.begin(), others.end(), [](const PoolRun& a, const PoolRun& b) {
    return goes_before(a.place, a.run_id, b.place, b.run_id);
  });
  if (others.empty()) return "";
  std::string names;
  for (std::size_t i = 0; i < std::min(others.size(), kNamed); ++i)
    names += fmt::format("{}{}", i == 0 ? "" : ", ", describe(others[i]));
  if (others.size() > kNamed) names += fmt::format(" and {} more", others.size() - kNamed);
  if (others.size() == 1) return fmt::format("the run {} comes first", names);
  return fmt::format("{}{} runs come first: {}", others.size() < kRunsBeforeMax ? "" : "at least ",
                     others.size(), names);
}

}  // namespace train
