#include "launcher/core/rank_table.h"

namespace train {

RankTable::RankTable(const Placement& placement)
    : entries_(static_cast<std::size_t>(placement.world_size)) {
  for (const PlacedNode& placed : placement.nodes) {
    for (int local = 0; local < placed.local_world_size; ++local)
      entries_[static_cast<std::size_t>(placed.first_rank.value + local)].node = placed.node;
  }
}

RankTable::Entry* RankTable::find(Rank rank) {
  if (rank.value < 0 || static_cast<std::size_t>(rank.value) >= entries_.size()) return nullptr;
  return &entries_[static_cast<std::size_t>(rank.value)];
}

void RankTable::ended(Entry& entry, const WorkerEnd& end) {
  entry.end = end;
  if (end.by_itself()) own_end_at_ = std::max(own_end_at_.value_or(0), entry.known_report());
}

std::vector<Rank> RankTable::node_lost(NodeId node) {
  std::vector<Rank> lost;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.node != node || !entry.alive()) continue;
    entry.lost = true;
    lost.push_back(Rank{static_cast<std::int32_t>(i)});
  }
  return lost;
}

void RankTable::resume_until(std::uint64_t report_seq) {
  for (Entry& entry : entries_) {
    if (!entry.arrived || entry.paused != report_seq) entry.paused.reset();
  }
}

bool RankTable::all_ended() const {
  return std::none_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.alive(); });
}

bool RankTable::any_ended() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& e) { return !e.alive(); });
}

bool RankTable::any_joined() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.joined; });
}

bool RankTable::all_joined() const {
  return std::all_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.joined; });
}

bool RankTable::any_reports() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& e) { return e.reports(); });
}

bool RankTable::any_ever_reported() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const Entry& e) { return e.known_report() > 0; });
}

bool RankTable::all_ended_by_themselves() const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const Entry& e) { return e.end && e.end->by_itself(); });
}

bool RankTable::all_paused_at(std::uint64_t report_seq) const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return !e.reports() || e.paused == report_seq; });
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
