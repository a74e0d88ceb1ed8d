#include "launcher/core/stuck_workers.h"

#include <fmt/format.h>

#include <set>

#include "launcher/core/hang_detector.h"

namespace train {
namespace {

/// A process whose first thread has ended while another is stuck is a zombie that nobody can reap.
bool may_be_stuck(const ProcessSample& process) {
  return process.state == "D" || process.state == "Z";
}

std::string place_of(const ProcessSample& process) {
  std::string text;
  if (!process.waits_for.empty()) text += ", in " + process.waits_for;
  if (!process.waits_in.empty()) text += ", in " + process.waits_in;
  return text;
}

}  // namespace

std::vector<StuckWorkers::Stuck> StuckWorkers::find(const RankTable& ranks, const NodePool& nodes,
                                                    TimePoint killed_at, TimePoint now) const {
  std::vector<Stuck> found;
  if (now < killed_at + kStuckAfter) return found;
  std::set<NodeId> named;
  for (const auto& [rank, seen] : seen_) {
    const RankTable::Entry* entry = ranks.find(rank);
    const bool fresh = now - seen.at <= kSampleAgeMax;
    if (entry == nullptr || !entry->alive() || !fresh || !may_be_stuck(seen.process)) continue;
    if (!named.insert(entry->node).second) continue;
    found.push_back(
        {entry->node,
         fmt::format(
             "rank {} on {} (pid {}) cannot be killed: it waits in the kernel (state {}){}. "
             "Until it ends, its node is left out, and what it has claimed there stays claimed",
             rank.value, nodes.name(entry->node), seen.process.pid, seen.process.state,
             place_of(seen.process))});
  }
  return found;
}

}  // namespace train
