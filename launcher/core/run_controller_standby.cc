// RunController, workers that stand by: once an attempt trains, processes for the one after it are
// started ahead. They belong to that attempt's supervisors, which take them when it begins.
#include <algorithm>
#include <utility>

#include "launcher/core/run_controller.h"

namespace train {

// Only where all ranks have joined by the SDK: a program without it would not wait, but train. And
// not before the group has made progress, or has had a moment for its own start, which they would
// slow down.
void RunController::consider_standbys() {
  const int wanted = spec_.scaling_config.standby_workers;
  if (wanted == 0 || attempt_.standbys_asked) return;
  const std::vector<RankTable::Entry>& ranks = attempt_.ranks.all();
  if (!attempt_.ranks.all_joined()) return;
  if (!attempt_.standbys_at) attempt_.standbys_at = now_ + kStandbySettle;
  if (!attempt_.progressed && now_ < *attempt_.standbys_at) return;
  attempt_.standbys_asked = true;
  for (int i = 0; i < wanted; ++i) {
    const NodeId node = ranks[static_cast<std::size_t>(i) % ranks.size()].node;
    if (draining_.count(node) == 0) ++standbys_[node];
  }
  for (const auto& [node, workers] : standbys_) ask_standby(node);
}

bool RunController::stands_by(Attempt attempt, NodeId node) const {
  return attempt == next_attempt_ && standbys_.count(node) != 0;
}

void RunController::ask_standby(NodeId node) {
  Prepare prepare{next_attempt_, attempt_.hosts.at(node).placed};
  prepare.standby = true;
  actions_.push_back(prepare);
}

void RunController::release_standby(NodeId node) {
  if (standbys_.erase(node) > 0) actions_.push_back(Release{next_attempt_, node});
}

void RunController::release_standbys() {
  while (!standbys_.empty()) release_standby(standbys_.begin()->first);
}

void RunController::tell_of_useless_standbys() {
  if (spec_.scaling_config.standby_workers == 0 || attempt_.failure) return;
  if (attempt_.ranks.any_joined() || std::exchange(useless_standbys_told_, true)) return;
  note(NoteLevel::Warning,
       "standby_workers had no effect: only programs that use the SDK can wait for a rank, and no "
       "worker has called it");
}

}  // namespace train
