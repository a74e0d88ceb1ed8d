// The simulated launcher's journal and abrupt death, and what both leave on disk.
#include <algorithm>

#include "tests/sim/launcher.h"

namespace train::sim {

void SimLauncher::die() {
  sim_.timeline.trace("fault: the launcher dies");
  dead_ = true;
  sim_.check.launcher_died();
  for (const auto& link : links_) link->die();
  // Any part of the group being written may be on disk. Nobody has relied on it yet.
  journal_written(sim_.timeline.random.below(journal_group_.size() + 1));
  if (committing_ && sim_.timeline.random.chance(0.5)) (void)put_checkpoint(*committing_);
  if (sim_.mutant == Mutant::JournalNotSynced) folder_.journal.clear();
}

void SimLauncher::remember(boost::json::object event) {
  journal_queue_.push_back(std::move(event));
  ++journal_asked_;
  write_journal();
}

// Write one group after the other, as launcher/cluster/run/journal_writer.cc does. The end of an
// attempt waits for the reports before it.
void SimLauncher::write_journal() {
  if (journal_holds_ > 0 || journal_queue_.empty() || !journal_group_.empty()) return;
  journal_group_ = std::exchange(journal_queue_, {});
  Duration takes = sim_.between(std::chrono::microseconds(200), milliseconds(10));
  if (sim_.unlucky(Site::SyncSlow)) takes += sim_.between(Duration{0}, seconds(1));
  later(takes, [this, until = journal_asked_] {
    journal_written(journal_group_.size());
    journal_group_.clear();
    journal_written_ = until;
    while (!journal_waits_.empty() && journal_waits_.front().first <= journal_written_) {
      const auto what = std::move(journal_waits_.front().second);
      journal_waits_.pop_front();
      what();
    }
    write_journal();
  });
}

void SimLauncher::journal_written(std::size_t records) {
  for (std::size_t i = 0; i < records; ++i) {
    const boost::json::object& event = journal_group_[i];
    if (event.at("event") == "attempt_ended")
      sim_.check.end_journaled(Attempt{event.at("attempt").to_number<std::uint32_t>()});
    folder_.journal.push_back({generation_, event});
  }
}

void SimLauncher::when_journaled(std::function<void()> what) {
  if (journal_written_ == journal_asked_) return what();
  journal_waits_.emplace_back(journal_asked_, std::move(what));
}

CheckpointInfo SimLauncher::put_checkpoint(const Commit& what) {
  CheckpointInfo info{.number = what.number - std::min(what.number - 1, 2 * numbers_skipped_),
                      .path = fmt::format("checkpoint_{:06}", what.number),
                      .epoch = -1};
  for (const StagedShard& shard : what.shards) {
    if (shard.rank == Rank{0}) info.epoch = std::stoll(shard.metadata_json);
  }
  sim_.check.committed(what, info);
  const auto later = std::find_if(folder_.checkpoints.begin(), folder_.checkpoints.end(),
                                  [&](const auto& one) { return one.info.number > info.number; });
  folder_.checkpoints.insert(later, {what.attempt, what.checkpoint_seq, info});
  sim_.timeline.trace("checkpoint {} committed: attempt {}, epoch {}", info.number,
                      what.attempt.value, info.epoch);
  return info;
}

}  // namespace train::sim
