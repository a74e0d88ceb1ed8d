#include "launcher/core/rank_table.h"

#include "launcher/core/placed_ranks.h"

namespace train {

RankTable::RankTable(const Placement& placement)
    : entries_(static_cast<std::size_t>(workers_of_all_roles(placement))),
      training_(static_cast<std::size_t>(placement.world_size)) {
  for (const PlacedNode& placed : placement.nodes) {
    std::vector<RanksHere>& here = on_node_[placed.node];
    here.push_back({placed.first_rank.value, placed.local_world_size});
    for (const PlacedRole& other : placed.others)
      here.push_back({other.first_rank.value, other.workers});
    for (const RanksHere& ranks : here)
      for (std::int32_t i = 0; i < ranks.count; ++i)
        entries_[static_cast<std::size_t>(ranks.first + i)].node = placed.node;
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) count(Rank{static_cast<std::int32_t>(i)}, 1);
}

void RankTable::count(Rank rank, int by) {
  const Entry& entry = entries_[static_cast<std::size_t>(rank.value)];
  const auto counts = [by](std::size_t& number, bool holds) {
    if (holds) number += static_cast<std::size_t>(by);
  };
  if (!trains(rank)) return counts(others_alive_, entry.alive());
  counts(counts_.alive, entry.alive());
  counts(counts_.living_paused, entry.alive() && entry.paused);
  counts(counts_.joined, entry.joined);
  counts(counts_.reporting, entry.reports());
  counts(counts_.paused, entry.reports() && entry.paused);
  counts(counts_.checkpoint_pending, entry.reports() && entry.checkpoint_pending);
  counts(counts_.ever_reported, entry.known_report() > 0);
  counts(counts_.ended_by_themselves, entry.end && entry.end->by_itself());
}

const RankTable::Entry* RankTable::find(Rank rank) const {
  if (rank.value < 0 || static_cast<std::size_t>(rank.value) >= entries_.size()) return nullptr;
  return &entries_[static_cast<std::size_t>(rank.value)];
}

void RankTable::ended(Rank rank, const WorkerEnd& end) {
  change(rank, [&](Entry& entry) {
    entry.end = end;
    if (trains(rank) && end.by_itself())
      own_end_at_ = std::max(own_end_at_.value_or(0), entry.known_report());
  });
}

std::vector<Rank> RankTable::node_lost(NodeId node) {
  std::vector<Rank> lost;
  const auto here = on_node_.find(node);
  if (here == on_node_.end()) return lost;
  for (const RanksHere& ranks : here->second) {
    for (std::int32_t i = 0; i < ranks.count; ++i) {
      const Rank rank{ranks.first + i};
      if (!find(rank)->alive()) continue;
      change(rank, [](Entry& entry) { entry.lost = true; });
      lost.push_back(rank);
    }
  }
  return lost;
}

void RankTable::resume_until(std::uint64_t report_seq) {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].arrived && entries_[i].paused == report_seq) continue;
    change(Rank{static_cast<std::int32_t>(i)}, [](Entry& entry) { entry.paused.reset(); });
  }
}

std::uint64_t RankTable::furthest_pause() const {
  std::uint64_t furthest = 0;
  for (const Entry& entry : entries_)
    if (entry.reports()) furthest = std::max(furthest, entry.paused.value_or(0));
  return furthest;
}

std::uint64_t RankTable::next_common_report() const {
  std::uint64_t highest = 0;
  for (const Entry& entry : entries_) {
    if (entry.reports())
      highest = std::max(highest, entry.paused ? *entry.paused : entry.reported + 1);
  }
  return highest;
}

}  // namespace train
