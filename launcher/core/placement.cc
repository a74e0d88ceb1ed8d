#include "launcher/core/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "launcher/core/label_selector.h"
#include "launcher/core/placed_ranks.h"
#include "launcher/core/worker_labels.h"
#include "lib/model/gpu_choice.h"
#include "lib/model/gpu_share.h"

namespace train {
namespace {

// Claims may be fractions such as 0.1: ten of them must fit into one.
constexpr double kSlack = 1e-6;

int times_that_fit(double available, double claim, int max) {
  if (claim <= 0) return max;
  const double times = std::floor(available / claim + kSlack);
  return static_cast<int>(std::clamp(times, 0.0, static_cast<double>(max)));
}

/// Take what so many workers claim. What is there may not suffice.
void take(Resources& from, const Resources& claim, int times) {
  from.cpu -= claim.cpu * times;
  from.gpu -= static_cast<double>(gpus_for(claim.gpu, times));
  const auto wanted = static_cast<std::uint64_t>(times) * claim.memory_bytes;
  from.memory_bytes -= std::min(from.memory_bytes, wanted);
  for (auto& [name, value] : from.custom)
    if (const auto found = claim.custom.find(name); found != claim.custom.end())
      value -= found->second * times;
}

/// Return how many workers GPUs are enough for.
int gpus_that_fit(double available, double claim, int max) {
  if (claim <= 0 || claim >= 1) return times_that_fit(available, claim, max);
  const std::int64_t of_each = times_that_fit(1, claim, max);
  const std::int64_t whole = times_that_fit(available, 1, max);
  return static_cast<int>(std::min<std::int64_t>(whole * of_each, max));
}

using Counts = std::vector<int>;
using Nodes = std::vector<const NodeCapacity*>;  // thousands of them: not copied

Nodes all_of(const std::vector<NodeCapacity>& nodes) {
  Nodes all;
  all.reserve(nodes.size());
  for (const NodeCapacity& node : nodes) all.push_back(&node);
  return all;
}

/// Return what the node has of what the spec allows.
Resources offer_of(const NodeCapacity& node, const ScalingConfig& scaling, bool use_total) {
  Resources offer = use_total ? node.total : node.free;
  if (scaling.gpus.empty()) return offer;
  const auto chosen = std::count_if(node.gpus.begin(), node.gpus.end(), [&](const OfferedGpu& gpu) {
    return is_chosen(scaling.gpus, gpu.name, gpu.uuid) && (use_total || gpu.free);
  });
  offer.gpu = std::min(offer.gpu, static_cast<double>(chosen));
  return offer;
}

bool has_labels(const NodeCapacity& node, const ScalingConfig& scaling) {
  const std::vector<LabelSelector>& selectors = scaling.label_selector;
  return selectors.empty() ||
         std::any_of(selectors.begin(), selectors.end(),
                     [&](const LabelSelector& selector) { return accepts(selector, node.labels); });
}

Counts capacity_of(const Nodes& nodes, const ScalingConfig& scaling, bool use_total) {
  Counts capacity;
  for (const NodeCapacity* node : nodes) {
    int room = has_labels(*node, scaling)
                   ? workers_that_fit(offer_of(*node, scaling, use_total),
                                      scaling.resources_per_worker, scaling.num_workers.max)
                   : 0;
    if (const int whole = scaling.workers_per_node; whole > 0) room = room >= whole ? whole : 0;
    capacity.push_back(room);
  }
  return capacity;
}

// PACK: use as few nodes as possible, the roomiest first; of equally roomy ones, the one listed
// first.
Counts pack(const Counts& capacity, int max) {
  Counts order(capacity.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return capacity[a] > capacity[b]; });
  Counts taken(capacity.size(), 0);
  int left = max;
  for (int i : order) {
    taken[i] = std::min(capacity[i], left);
    left -= taken[i];
  }
  return taken;
}

Counts spread(const Counts& capacity, int max, int per_node_max) {
  Counts taken(capacity.size(), 0);
  int left = max;
  for (bool progress = true; left > 0 && progress;) {
    progress = false;
    for (std::size_t i = 0; i < capacity.size() && left > 0; ++i) {
      if (taken[i] >= std::min(capacity[i], per_node_max)) continue;
      ++taken[i];
      --left;
      progress = true;
    }
  }
  return taken;
}

Counts choose(const ScalingConfig& scaling, const Nodes& nodes, const Counts& capacity) {
  const int max = scaling.num_workers.max;
  if (scaling.label_selector.size() > 1) {
    std::vector<LabelledRoom> rooms;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      rooms.push_back({&nodes[i]->labels, capacity[i]});
    return place_labelled(scaling.label_selector, rooms, scaling.placement_strategy, max);
  }
  switch (scaling.placement_strategy) {
    case PlacementStrategy::Pack:
      return pack(capacity, max);
    case PlacementStrategy::Spread:
      return spread(capacity, max, std::numeric_limits<int>::max());
    case PlacementStrategy::StrictSpread:
      return spread(capacity, max, 1);
    case PlacementStrategy::StrictPack: {
      Counts taken(capacity.size(), 0);
      const auto best = std::max_element(capacity.begin(), capacity.end());
      if (best != capacity.end()) taken[best - capacity.begin()] = std::min(*best, max);
      return taken;
    }
  }
  return {};
}

// Return the nodes of the previous attempt in the order of their ranks, then the others in the
// order in which they were named.
Nodes used_first(Nodes nodes, const Placement& before) {
  if (before.nodes.empty()) return nodes;
  std::map<NodeId, std::size_t> rank;
  for (const PlacedNode& placed : before.nodes) rank.emplace(placed.node, rank.size());
  std::vector<std::pair<std::size_t, const NodeCapacity*>> ranked;
  for (const NodeCapacity* node : nodes) {
    const auto found = rank.find(node->node);
    ranked.emplace_back(found == rank.end() ? rank.size() : found->second, node);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::transform(ranked.begin(), ranked.end(), nodes.begin(),
                 [](const auto& entry) { return entry.second; });
  return nodes;
}

// Return the chosen nodes in the order of their ranks. Those of the previous attempt keep their
// place. A new one takes the place of one that is gone, preferably of one that had as many workers.
std::vector<PlacedNode> kept_in_place(const std::vector<PlacedNode>& chosen,
                                      const std::vector<PlacedNode>& before) {
  std::set<NodeId> used;
  for (const PlacedNode& old : before) used.insert(old.node);
  std::map<NodeId, PlacedNode> stay;
  std::vector<PlacedNode> fresh;
  for (const PlacedNode& placed : chosen) {
    if (used.count(placed.node) != 0)
      stay.emplace(placed.node, placed);
    else
      fresh.push_back(placed);
  }
  std::vector<PlacedNode> ordered;
  for (const PlacedNode& old : before) {
    if (const auto stays = stay.find(old.node); stays != stay.end()) {
      ordered.push_back(stays->second);
      continue;
    }
    auto heir = std::find_if(fresh.begin(), fresh.end(), [&](const PlacedNode& placed) {
      return placed.local_world_size == old.local_world_size;
    });
    if (heir == fresh.end()) heir = fresh.begin();
    if (heir == fresh.end()) continue;
    ordered.push_back(*heir);
    fresh.erase(heir);
  }
  ordered.insert(ordered.end(), fresh.begin(), fresh.end());
  return ordered;
}

std::string amount(double value) { return fmt::format("{:g}", value); }

std::string describe_claim(const Resources& claim) {
  std::vector<std::string> parts;
  if (claim.cpu > 0) parts.push_back("CPU " + amount(claim.cpu));
  if (claim.gpu > 0) parts.push_back("GPU " + amount(claim.gpu));
  if (claim.memory_bytes > 0)
    parts.push_back(fmt::format("memory {} MiB", claim.memory_bytes >> 20));
  for (const auto& [name, value] : claim.custom) parts.push_back(name + " " + amount(value));
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ", "));
}

constexpr std::size_t kNodesShown = 8;

std::string more_nodes(std::size_t of_all) {
  const std::size_t more = of_all - kNodesShown;
  return fmt::format("{} more {}", more, more == 1 ? "node" : "nodes");
}

/// Return why no node has the labels that some worker asks for, or "" if one has.
std::string describe_labels_lack(const ScalingConfig& scaling, const Nodes& nodes) {
  if (nodes.empty()) return "";
  for (const LabelSelector& selector : scaling.label_selector) {
    if (std::any_of(nodes.begin(), nodes.end(),
                    [&](const NodeCapacity* node) { return accepts(selector, node->labels); }))
      continue;
    std::vector<std::string> there;
    for (const NodeCapacity* node : nodes) {
      if (there.size() == kNodesShown) {
        there.push_back(more_nodes(nodes.size()));
        break;
      }
      there.push_back(fmt::format("{} has {}", node->name, describe_labels(node->labels)));
    }
    return fmt::format("no node has the labels that label_selector asks for ({}): {}",
                       describe(selector), fmt::join(there, "; "));
  }
  return "";
}

/// Return the node's room in words.
std::string describe_room(const ScalingConfig& scaling, const NodeCapacity& node, int room,
                          bool of_total) {
  const Resources has = offer_of(node, scaling, of_total);
  std::string text =
      fmt::format("{} {} CPU {}", node.name, of_total ? "has" : "has free", amount(has.cpu));
  if (scaling.resources_per_worker.gpu > 0 || has.gpu > 0)
    text += fmt::format(", GPU {}", amount(has.gpu));
  if (scaling.resources_per_worker.memory_bytes > 0)
    text += fmt::format(", memory {} MiB", has.memory_bytes >> 20);
  for (const auto& [name, value] : scaling.resources_per_worker.custom) {
    const auto found = has.custom.find(name);
    text += fmt::format(", {} {}", name, amount(found == has.custom.end() ? 0 : found->second));
  }
  const std::string labels =
      has_labels(node, scaling) ? "" : "; its labels: " + describe_labels(node.labels);
  return fmt::format("{} (room for {}{})", text, room, labels);
}

std::string describe_lack(const ScalingConfig& scaling, const Nodes& nodes, const Counts& capacity,
                          int placed, bool of_total) {
  if (std::string lack = describe_labels_lack(scaling, nodes); !lack.empty()) return lack;
  std::vector<std::string> offers;
  for (std::size_t i = 0; i < std::min(nodes.size(), kNodesShown); ++i)
    offers.push_back(describe_room(scaling, *nodes[i], capacity[i], of_total));
  if (nodes.size() > kNodesShown) offers.push_back(more_nodes(nodes.size()));
  const std::string whole = scaling.workers_per_node > 0
                                ? fmt::format(", {} on each node", scaling.workers_per_node)
                                : "";
  static constexpr const char* kStrategies[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
  return fmt::format(
      "{} workers with {} each are needed ({}{}), {} fit: {}", scaling.num_workers.min,
      describe_claim(scaling.resources_per_worker),
      kStrategies[static_cast<int>(scaling.placement_strategy)], whole, placed,
      offers.empty() ? "no node answers" : fmt::format("{}", fmt::join(offers, "; ")));
}

}  // namespace

std::vector<NodeCapacity> all_free(std::vector<NodeCapacity> nodes) {
  for (NodeCapacity& node : nodes) {
    node.free = node.total;
    for (OfferedGpu& gpu : node.gpus) gpu.free = true;
  }
  return nodes;
}

int workers_that_fit(const Resources& available, const Resources& claim, int max) {
  int fit = std::min(times_that_fit(available.cpu, claim.cpu, max),
                     gpus_that_fit(available.gpu, claim.gpu, max));
  fit = std::min(fit, times_that_fit(static_cast<double>(available.memory_bytes),
                                     static_cast<double>(claim.memory_bytes), max));
  for (const auto& [name, value] : claim.custom) {
    const auto found = available.custom.find(name);
    fit = std::min(fit,
                   times_that_fit(found == available.custom.end() ? 0 : found->second, value, max));
  }
  return fit;
}

namespace {

Placement place_ranks(const ScalingConfig& scaling, const std::vector<NodeCapacity>& named_nodes,
                      std::size_t expected_nodes, const Placement& before) {
  const Nodes nodes = used_first(all_of(named_nodes), before);
  const Counts capacity = capacity_of(nodes, scaling, false);
  const Counts taken = choose(scaling, nodes, capacity);
  const int placed = std::accumulate(taken.begin(), taken.end(), 0);

  Placement placement;
  if (placed < scaling.num_workers.min) {
    const Counts total_capacity = capacity_of(nodes, scaling, true);
    const Counts at_best = choose(scaling, nodes, total_capacity);
    const int possible = std::accumulate(at_best.begin(), at_best.end(), 0);
    placement.never = nodes.size() >= expected_nodes && possible < scaling.num_workers.min;
    placement.reason = describe_lack(scaling, nodes, placement.never ? total_capacity : capacity,
                                     placement.never ? possible : placed, placement.never);
    return placement;
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (taken[i] == 0) continue;
    placement.nodes.push_back(
        {.node = nodes[i]->node, .node_rank = {}, .first_rank = {}, .local_world_size = taken[i]});
  }
  std::vector<PlacedNode> had_ranks = before.nodes;
  std::erase_if(had_ranks, [](const PlacedNode& node) { return node.local_world_size == 0; });
  placement.nodes = kept_in_place(placement.nodes, had_ranks);
  number_ranks(placement);
  return placement;
}

/// A node where workers may run beside those that train.
struct RoomBeside {
  const NodeCapacity* node = nullptr;
  Resources left;
  bool has_ranks = false;
};

/// Return what is left beside the ranks: on their nodes, in the order of the ranks, then elsewhere.
std::vector<RoomBeside> left_beside(const Placement& placement, const ScalingConfig& scaling,
                                    const std::vector<NodeCapacity>& nodes, bool use_total) {
  std::vector<RoomBeside> rooms;
  std::map<NodeId, const NodeCapacity*> by_id;
  for (const NodeCapacity& node : nodes) by_id[node.node] = &node;
  std::set<NodeId> have_ranks;
  for (const PlacedNode& placed : placement.nodes) {
    const NodeCapacity* node = by_id.at(placed.node);
    have_ranks.insert(placed.node);
    RoomBeside& room =
        rooms.emplace_back(RoomBeside{node, offer_of(*node, scaling, use_total), true});
    take(room.left, scaling.resources_per_worker, placed.local_world_size);
  }
  for (const NodeCapacity& node : nodes)
    if (!have_ranks.contains(node.node))
      rooms.push_back({&node, offer_of(node, scaling, use_total), false});
  return rooms;
}

bool may_have(const NodeCapacity& node, const RoleSpec& role) {
  return role.label_selector.empty() || accepts(role.label_selector, node.labels);
}

/// Finds a room for one worker of a role after the other: on the nodes of the ranks in turn, then
/// on others; if there are no ranks yet, on all in turn. What is full for one of them stays so, so
/// that each room is passed once.
class RoomsInTurn {
 public:
  RoomsInTurn(std::vector<RoomBeside>& rooms, const RoleSpec& role, bool elsewhere)
      : rooms_(rooms), role_(role), elsewhere_(elsewhere) {
    const bool any_ranks = !rooms.empty() && rooms.front().has_ranks;
    while (next_elsewhere_ < rooms.size() && rooms[next_elsewhere_].has_ranks == any_ranks)
      turn_.push_back(next_elsewhere_++);
  }
  /// Take the room of the next worker, and return which it is.
  std::optional<std::size_t> take_one() {
    while (!turn_.empty()) {
      const std::size_t at = turn_.front();
      turn_.pop_front();
      if (!fits(at)) continue;
      turn_.push_back(at);
      return taken(at);
    }
    if (!elsewhere_) return std::nullopt;
    for (; next_elsewhere_ < rooms_.size(); ++next_elsewhere_)
      if (fits(next_elsewhere_)) return taken(next_elsewhere_);
    return std::nullopt;
  }

 private:
  bool fits(std::size_t at) const {
    return may_have(*rooms_[at].node, role_) &&
           workers_that_fit(rooms_[at].left, role_.resources_per_worker, 1) > 0;
  }
  std::size_t taken(std::size_t at) {
    take(rooms_[at].left, role_.resources_per_worker, 1);
    return at;
  }

  std::vector<RoomBeside>& rooms_;
  const RoleSpec& role_;
  const bool elsewhere_;
  std::deque<std::size_t> turn_;
  std::size_t next_elsewhere_ = 0;
};

/// What of each other role is in which room.
using RolesInRooms = std::map<std::size_t, std::vector<PlacedRole>>;

/// Take rooms for the workers of the roles beside the one that trains. Return the role for which
/// there is too little room, or nothing.
std::optional<RoleSpec> take_roles(RolesInRooms& placed, std::vector<RoomBeside>& rooms,
                                   const ScalingConfig& scaling) {
  const bool elsewhere = scaling.placement_strategy != PlacementStrategy::StrictPack;
  for (std::size_t i = 0; i < scaling.other_roles.size(); ++i) {
    const RoleSpec& role = scaling.other_roles[i];
    std::map<std::size_t, int> workers;
    RoomsInTurn in_turn(rooms, role, elsewhere);
    for (int worker = 0; worker < role.workers; ++worker) {
      const auto room = in_turn.take_one();
      if (!room) return role;
      ++workers[*room];
    }
    for (const auto& [room, count] : workers)
      placed[room].push_back({static_cast<int>(i) + 1, {}, count});
  }
  return std::nullopt;
}

void add_roles(Placement& placement, const RolesInRooms& placed,
               const std::vector<RoomBeside>& rooms) {
  std::map<NodeId, std::size_t> by_id;
  for (std::size_t i = 0; i < placement.nodes.size(); ++i) by_id[placement.nodes[i].node] = i;
  for (const auto& [room, others] : placed) {
    const NodeId node = rooms[room].node->node;
    const auto [at, fresh] = by_id.emplace(node, placement.nodes.size());
    if (fresh) placement.nodes.push_back({node, {}, {}});
    placement.nodes[at->second].others = others;
  }
  number_ranks(placement);
}

std::optional<RoleSpec> place_roles(Placement& placement, std::vector<RoomBeside>& rooms,
                                    const ScalingConfig& scaling) {
  if (scaling.other_roles.empty()) return std::nullopt;
  RolesInRooms placed;
  if (auto lacking = take_roles(placed, rooms, scaling)) return lacking;
  add_roles(placement, placed, rooms);
  return std::nullopt;
}

/// Give each dataset its least number of places, then more of them in turn. Return the dataset for
/// whose least number there is no room, or nothing.
std::optional<IngestNeed> place_ingest(Placement& placement, std::vector<RoomBeside>& rooms,
                                       const std::vector<IngestNeed>& needs) {
  std::size_t next = 0;  // the node whose turn it is
  std::vector<int> placed(needs.size(), 0);
  const auto place_one = [&](std::size_t which) {
    const IngestNeed& need = needs[which];
    for (std::size_t tried = 0; tried < rooms.size(); ++tried) {
      const std::size_t at = (next + tried) % rooms.size();
      RoomBeside& room = rooms[at];
      if (!may_have(*room.node, need, room.has_ranks) ||
          workers_that_fit(room.left, need.spec.resources_per_worker, 1) < 1)
        continue;
      take(room.left, need.spec.resources_per_worker, 1);
      placement.ingest.push_back({need.dataset, ++placed[which], room.node->node});
      next = at + 1;
      return true;
    }
    return false;
  };
  for (std::size_t i = 0; i < needs.size(); ++i) {
    while (placed[i] < needs[i].spec.workers.min)
      if (!place_one(i)) return needs[i];
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t i = 0; i < needs.size(); ++i)
      if (placed[i] < needs[i].spec.workers.max) progress |= place_one(i);
  }
  std::sort(placement.ingest.begin(), placement.ingest.end(),
            [](const PlacedIngest& a, const PlacedIngest& b) {
              return std::tie(a.dataset, a.slot) < std::tie(b.dataset, b.slot);
            });
  return std::nullopt;
}

/// Looks for the most ranks beside which all ingest workers fit: with one fewer each time, since
/// where ingest workers need ranks on their nodes, fewer ranks may leave less room. Where that
/// could take minutes, the steps double after a while, and what lies between is not known.
class FewerRanks {
 public:
  FewerRanks(const ScalingConfig& scaling, int ranks, std::size_t nodes)
      : unit_(std::max(1, scaling.workers_per_node)),
        min_(std::max(1, scaling.num_workers.min)),
        single_steps_(std::max(kSingleStepsMin, kNodesLookedAt / static_cast<int>(nodes + 1))),
        fails_(ranks),
        tried_(ranks) {}
  /// Return how many ranks to try next, if more is to be known. `fits`: what was tried last does.
  std::optional<int> next(bool fits) {
    (fits ? fits_ : fails_) = tried_;
    if (fits_ > 0) {
      const int between = (fails_ - fits_) / unit_ / 2 * unit_;
      if (between <= 0) return std::nullopt;
      return tried_ = fits_ + between;
    }
    if (tried_ - unit_ < min_) return std::nullopt;
    if (++steps_ > single_steps_) step_ *= 2;
    const int units = std::min(step_, (tried_ - min_) / unit_);
    return tried_ -= units * unit_;
  }
  /// Return whether every number was tried.
  bool tried_all() const { return step_ == 1; }

 private:
  static constexpr int kSingleStepsMin = 64, kNodesLookedAt = 500'000;
  const int unit_, min_, single_steps_;
  int fails_, tried_, fits_ = 0;
  int steps_ = 0, step_ = 1;
};

std::string describe_lack(const IngestNeed& need, const Placement& ranks,
                          const std::vector<RoomBeside>& rooms) {
  std::vector<std::string> offers;
  std::size_t allowed = 0;
  for (const RoomBeside& room : rooms) {
    if (!may_have(*room.node, need, room.has_ranks) || ++allowed > kNodesShown) continue;
    offers.push_back(fmt::format("{} CPU {}, memory {} MiB", room.node->name, amount(room.left.cpu),
                                 room.left.memory_bytes >> 20));
  }
  if (allowed > kNodesShown) offers.push_back(more_nodes(allowed));
  const std::string needed = fmt::format(
      "{} {} for {} with {} each {} needed", need.spec.workers.min,
      need.spec.workers.min == 1 ? "ingest worker" : "ingest workers", need.dataset,
      describe_claim(need.spec.resources_per_worker), need.spec.workers.min == 1 ? "is" : "are");
  if (offers.empty())
    return fmt::format("{} on {}, and no such node is there", needed,
                       fmt::join(need.spec.nodes, ", "));
  return fmt::format("{} beside {} {}, which leave: {}", needed, ranks.world_size,
                     ranks.world_size == 1 ? "worker" : "workers", fmt::join(offers, "; "));
}

/// `rooms`: what the ranks leave.
std::string describe_lack(const RoleSpec& role, const ScalingConfig& scaling,
                          const Placement& ranks, const std::vector<RoomBeside>& rooms) {
  std::vector<std::string> offers;
  std::size_t allowed = 0;
  for (const RoomBeside& room : rooms) {
    if (!may_have(*room.node, role) || ++allowed > kNodesShown) continue;
    std::string offer = fmt::format("{} CPU {}", room.node->name, amount(room.left.cpu));
    if (role.resources_per_worker.gpu > 0) offer += fmt::format(", GPU {}", amount(room.left.gpu));
    offers.push_back(offer + fmt::format(", memory {} MiB", room.left.memory_bytes >> 20));
  }
  if (allowed > kNodesShown) offers.push_back(more_nodes(allowed));
  const std::string needed =
      fmt::format("{} {} of role {} with {} each {} needed", role.workers,
                  role.workers == 1 ? "worker" : "workers", role.name,
                  describe_claim(role.resources_per_worker), role.workers == 1 ? "is" : "are");
  if (offers.empty())
    return fmt::format("{}, and no node has the labels that the role asks for ({})", needed,
                       describe(role.label_selector));
  return fmt::format("{} beside {} of role {}, which leave: {}", needed, ranks.world_size,
                     scaling.role, fmt::join(offers, "; "));
}

/// Place what runs beside the ranks. Return why it does not fit, or nothing.
std::optional<std::string> place_beside(Placement& ranks, const ScalingConfig& scaling,
                                        const std::vector<IngestNeed>& ingest,
                                        std::vector<RoomBeside> rooms) {
  const std::vector<RoomBeside> left = rooms;
  if (const auto role = place_roles(ranks, rooms, scaling))
    return describe_lack(*role, scaling, ranks, left);
  const std::vector<RoomBeside> beside_roles = rooms;
  if (const auto need = place_ingest(ranks, rooms, ingest))
    return describe_lack(*need, ranks, beside_roles);
  return std::nullopt;
}

}  // namespace

std::vector<IngestNeed> ingest_needs(const JobSpec& spec) {
  std::vector<IngestNeed> needs;
  for (const auto& [name, dataset] : spec.datasets)
    if (dataset.ingest.workers.max > 0) needs.push_back({name, dataset.ingest});
  return needs;
}

bool may_have(const NodeCapacity& node, const IngestNeed& need, bool has_ranks) {
  const std::vector<std::string>& names = need.spec.nodes;
  if (names.empty()) return has_ranks;
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return name == kAnyNode || name == node.name || name == node.address;
  });
}

std::string describe(const IngestNeed& need) {
  const WorkerCount& count = need.spec.workers;
  return fmt::format("{}{} ingest {} for {} with {} each",
                     count.elastic() ? fmt::format("{} to ", count.min) : "", count.max,
                     count.max == 1 ? "worker" : "workers", need.dataset,
                     describe_claim(need.spec.resources_per_worker));
}

namespace {

/// Place the ranks, and beside them what else there is, with fewer ranks if need be.
Placement place_ranks_first(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes,
                            std::size_t expected_nodes, const Placement& before,
                            const std::vector<IngestNeed>& ingest) {
  Placement ranks = place_ranks(scaling, nodes, expected_nodes, before);
  if ((ingest.empty() && scaling.other_roles.empty()) || ranks.world_size == 0) return ranks;
  FewerRanks search(scaling, ranks.world_size, nodes.size());
  std::optional<Placement> found;
  ScalingConfig fewer = scaling;
  for (;;) {
    const auto lack =
        place_beside(ranks, scaling, ingest, left_beside(ranks, scaling, nodes, false));
    if (!lack) found = ranks;
    if (const auto next = search.next(!lack)) {
      fewer.num_workers.max = *next;
      ranks = place_ranks(fewer, nodes, expected_nodes, before);
      continue;
    }
    if (found) return *found;
    Placement none;
    // With everything free, the ranks could be elsewhere: only what fits nowhere never will.
    std::vector<NodeCapacity> free_nodes = nodes;
    for (NodeCapacity& node : free_nodes) node.free = node.total;
    Placement at_best = place_ranks(fewer, free_nodes, expected_nodes, before);
    none.never = search.tried_all() && nodes.size() >= expected_nodes && at_best.world_size > 0 &&
                 place_beside(at_best, scaling, ingest, left_beside(at_best, scaling, nodes, true))
                     .has_value();
    none.reason = *lack;
    return none;
  }
}

/// Place the other roles first, and the ranks on what they leave.
Placement place_roles_first(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes,
                            std::size_t expected_nodes, const Placement& before,
                            const std::vector<IngestNeed>& ingest) {
  std::vector<RoomBeside> rooms = left_beside({}, scaling, nodes, false);
  RolesInRooms placed;
  if (take_roles(placed, rooms, scaling)) return {};
  std::vector<NodeCapacity> left = nodes;
  for (std::size_t i = 0; i < left.size(); ++i) left[i].free = left[i].total = rooms[i].left;
  Placement ranks = place_ranks(scaling, left, expected_nodes, before);
  if (ranks.world_size == 0) return {};
  std::vector<RoomBeside> beside_both = left_beside(ranks, scaling, left, false);
  add_roles(ranks, placed, rooms);
  return place_ingest(ranks, beside_both, ingest) ? Placement{} : ranks;
}

/// Return whether some role would not even fit alone on nodes that are free.
bool lacks_a_role(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes) {
  return std::any_of(scaling.other_roles.begin(), scaling.other_roles.end(),
                     [&](const RoleSpec& role) {
                       ScalingConfig alone = scaling;
                       alone.other_roles = {role};
                       std::vector<RoomBeside> rooms = left_beside({}, scaling, nodes, true);
                       RolesInRooms placed;
                       return take_roles(placed, rooms, alone).has_value();
                     });
}

/// Return whether all nodes together have less of some resource than all workers claim.
bool lack_together(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes) {
  Resources has;
  for (const NodeCapacity& node : nodes) {
    const Resources offer = offer_of(node, scaling, true);
    has.cpu += offer.cpu;
    has.gpu += offer.gpu;
    has.memory_bytes += offer.memory_bytes;
    for (const auto& [name, value] : offer.custom) has.custom[name] += value;
  }
  const int least = scaling.num_workers.min;
  Resources each = scaling.resources_per_worker;
  each.gpu = each.gpu >= 1 ? each.gpu : 0;  // how they share GPUs depends on the nodes
  if (workers_that_fit(has, each, least) < least) return true;
  take(has, each, least);
  for (const RoleSpec& role : scaling.other_roles) {
    if (workers_that_fit(has, role.resources_per_worker, role.workers) < role.workers) return true;
    take(has, role.resources_per_worker, role.workers);
  }
  return false;
}

/// STRICT_PACK: return the best of what each node alone could have.
Placement place_on_one_node(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes,
                            std::size_t expected_nodes, const Placement& before,
                            const std::vector<IngestNeed>& ingest) {
  Placement best = place_ranks_first(scaling, nodes, expected_nodes, before, ingest);
  for (const NodeCapacity* node : used_first(all_of(nodes), before)) {
    if (best.world_size >= scaling.num_workers.max) break;
    Placement alone = place_ranks_first(scaling, {*node}, 1, before, ingest);
    if (alone.world_size > best.world_size) best = std::move(alone);
  }
  return best;
}

}  // namespace

Placement place(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes,
                std::size_t expected_nodes, const Placement& before,
                const std::vector<IngestNeed>& ingest) {
  if (scaling.other_roles.empty())
    return place_ranks_first(scaling, nodes, expected_nodes, before, ingest);
  const bool on_one = scaling.placement_strategy == PlacementStrategy::StrictPack;
  Placement best = on_one ? place_on_one_node(scaling, nodes, expected_nodes, before, ingest)
                          : place_ranks_first(scaling, nodes, expected_nodes, before, ingest);
  if (!on_one && best.world_size < scaling.num_workers.max) {
    Placement other = place_roles_first(scaling, nodes, expected_nodes, before, ingest);
    if (other.world_size > best.world_size) best = std::move(other);
  }
  // Both ways depend on the order of the nodes: where workers were before must not make them fewer.
  if (best.world_size < scaling.num_workers.max && !before.nodes.empty()) {
    Placement anew = place(scaling, nodes, expected_nodes, {}, ingest);
    if (anew.world_size > best.world_size) return anew;
  }
  if (best.world_size > 0) return best;
  // Neither way tries everything, so that only what certainly never fits is said to.
  const bool never =
      place_ranks(scaling, nodes, expected_nodes, before).never || lacks_a_role(scaling, nodes) ||
      lack_together(scaling, nodes) ||
      (on_one &&
       place_on_one_node(scaling, all_free(nodes), expected_nodes, {}, {}).world_size == 0);
  best.never = never && nodes.size() >= expected_nodes;
  return best;
}

std::map<NodeId, int> rooms_when_free(const ScalingConfig& scaling,
                                      const std::vector<NodeCapacity>& nodes) {
  ScalingConfig least = scaling;
  const int wanted = least.num_workers.max = scaling.num_workers.min;
  const Counts capacity = capacity_of(all_of(nodes), least, true);
  const Counts best = choose(least, all_of(nodes), capacity);
  if (std::accumulate(best.begin(), best.end(), 0) < wanted) return {};
  std::map<NodeId, int> rooms;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    int room = capacity[i];
    if (scaling.placement_strategy == PlacementStrategy::StrictSpread) room = std::min(room, 1);
    if (scaling.placement_strategy == PlacementStrategy::StrictPack && room < wanted) room = 0;
    if (room > 0) rooms[nodes[i].node] = room;
  }
  return rooms;
}

int automatic_workers(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes) {
  const Resources& claim = scaling.resources_per_worker;
  Counts counts;
  for (const NodeCapacity& node : nodes) {
    const Resources has = offer_of(node, scaling, true);
    const int count = claim.gpu > 0
                          ? gpus_that_fit(has.gpu, claim.gpu, kWorkersMax)
                          : times_that_fit(has.cpu, claim.cpu > 0 ? claim.cpu : 1, kWorkersMax);
    counts.push_back(has_labels(node, scaling) ? count : 0);
  }
  switch (scaling.placement_strategy) {
    case PlacementStrategy::StrictPack:
      return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
    case PlacementStrategy::StrictSpread:
      return static_cast<int>(
          std::count_if(counts.begin(), counts.end(), [](int count) { return count > 0; }));
    case PlacementStrategy::Pack:
    case PlacementStrategy::Spread:
      break;
  }
  const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  return static_cast<int>(std::min<std::int64_t>(all, kWorkersMax));
}

Resources ingest_claim(const Placement& placement, NodeId node,
                       const std::vector<IngestNeed>& needs) {
  Resources sum;
  for (const PlacedIngest& place : placement.ingest) {
    if (place.node != node) continue;
    for (const IngestNeed& need : needs) {
      if (need.dataset != place.dataset) continue;
      sum.cpu += need.spec.resources_per_worker.cpu;
      sum.memory_bytes += need.spec.resources_per_worker.memory_bytes;
    }
  }
  return sum;
}

}  // namespace train
