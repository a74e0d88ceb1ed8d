#include "launcher/core/placed_ranks.h"

#include <fmt/format.h>

#include <utility>

namespace train {

int workers_of_all_roles(const Placement& placement) {
  if (placement.other_roles.empty()) return placement.world_size;
  return placement.other_roles.back().first + placement.other_roles.back().workers;
}

void number_ranks(Placement& placement) {
  placement.world_size = 0;
  placement.other_roles.clear();
  for (std::size_t i = 0; i < placement.nodes.size(); ++i) {
    PlacedNode& node = placement.nodes[i];
    node.node_rank = NodeRank{static_cast<int>(i)};
    node.first_rank = Rank{placement.world_size};
    placement.world_size += node.local_world_size;
    for (const PlacedRole& other : node.others) {
      if (std::cmp_less(placement.other_roles.size(), other.role))
        placement.other_roles.resize(static_cast<std::size_t>(other.role));
      placement.other_roles[static_cast<std::size_t>(other.role) - 1].workers += other.workers;
    }
  }
  int next = placement.world_size;
  for (RoleRanks& role : placement.other_roles) {
    role.first = next;
    next += role.workers;
  }
  std::vector<RoleRanks> left = placement.other_roles;
  for (PlacedNode& node : placement.nodes) {
    for (PlacedRole& other : node.others) {
      RoleRanks& of_role = left[static_cast<std::size_t>(other.role) - 1];
      other.first_rank = Rank{of_role.first};
      of_role.first += other.workers;
    }
  }
}

RoleRank role_rank_of(const Placement& placement, Rank rank) {
  RoleRank of{0, rank.value};
  for (std::size_t i = 0; i < placement.other_roles.size(); ++i)
    if (placement.other_roles[i].first <= rank.value)
      of = {static_cast<int>(i) + 1, rank.value - placement.other_roles[i].first};
  return of;
}

std::string role_text(const ScalingConfig& scaling, const Placement& placement, Rank rank) {
  if (placement.other_roles.empty()) return "";
  const RoleRank of = role_rank_of(placement, rank);
  const auto other = static_cast<std::size_t>(of.role) - 1;
  if (of.role > 0 && other >= scaling.other_roles.size()) return "";
  return fmt::format("{} {}", of.role == 0 ? scaling.role : scaling.other_roles[other].name,
                     of.rank);
}

std::string others_text(const ScalingConfig& scaling) {
  std::string text;
  for (const RoleSpec& role : scaling.other_roles)
    text += fmt::format("{}{} of role {}", text.empty() ? " and " : ", ", role.workers, role.name);
  return text;
}

std::vector<WorkerRanks> ranks_on(const PlacedNode& placed, const Placement& placement) {
  std::vector<WorkerRanks> workers;
  WorkerRanks of{.world_size = workers_of_all_roles(placement),
                 .local_world_size = placed.local_world_size,
                 .node_rank = placed.node_rank.value,
                 .node_count = static_cast<std::int32_t>(placement.nodes.size())};
  const bool several = !placement.other_roles.empty();
  for (const PlacedRole& other : placed.others) of.local_world_size += other.workers;
  const auto add = [&](int role, RoleRanks of_role, Rank first, int count) {
    for (std::int32_t local = 0; local < count; ++local) {
      of.rank = first.value + local;
      of.local_rank = static_cast<std::int32_t>(workers.size());
      if (several) {
        of.role = role;
        of.role_world_size = of_role.workers;
        of.role_rank = of.rank - of_role.first;
        of.role_local_rank = local;
        of.role_local_world_size = count;
      }
      workers.push_back(of);
    }
  };
  add(0, {0, placement.world_size}, placed.first_rank, placed.local_world_size);
  for (const PlacedRole& other : placed.others)
    add(other.role, placement.other_roles[static_cast<std::size_t>(other.role) - 1],
        other.first_rank, other.workers);
  return workers;
}

}  // namespace train
