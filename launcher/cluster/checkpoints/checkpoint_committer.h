// Performs the commits that the controller decides on. They run one after the other on the disk
// thread, and CommitFinished answers each. Storage may hang there, so a commit that the controller
// gives up is answered at once. Its checkpoint then never appears, unless the commit has already
// passed its CommitFence.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cluster/checkpoints/checkpoint_manager.h"
#include "launcher/cluster/checkpoints/checkpoint_observer.h"
#include "launcher/cluster/checkpoints/validation_executor.h"
#include "lib/base/metrics.h"

namespace train {

class CheckpointCommitter {
 public:
  /// A commit removes no checkpoint that `validations` still needs.
  CheckpointCommitter(CheckpointContext context, const ValidationExecutor& validations)
      : context_(std::move(context)),
        validations_(validations),
        keep_on_nodes_(context_.manager.keep_on_nodes()) {}

  /// Take in a report of rank 0 that carried a checkpoint.
  void reported(ReportRecord report);
  void metrics_are(std::map<std::pair<Attempt, std::uint64_t>, Metrics> metrics) {
    metrics_ = std::move(metrics);
  }
  /// Commit a checkpoint. `newest`: rank 0's newest metrics, in case those of the checkpoint's own
  /// report are not known.
  asio::awaitable<void> commit(Commit action, Metrics newest);
  /// Give up a commit, even one that commit() has not been called for yet.
  void give_up(const GiveUpCommit& action);
  /// Return CheckpointOutcome::keep as of the newest commit, plus the data of commits that were
  /// given up and may yet come.
  std::vector<std::string> keep_on_nodes() const;
  /// Return how many commits that were given up still occupy the disk thread.
  std::size_t hanging() const;

 private:
  using Key = std::pair<Attempt, std::uint64_t>;
  struct Entry {
    const std::shared_ptr<CommitFence> fence = std::make_shared<CommitFence>();
    bool given_up = false, may_come = false;
  };
  Metrics take_metrics(const Commit& action, Metrics newest);
  void committed(const Commit& action, const CheckpointManager::Outcome& outcome);

  CheckpointContext context_;
  const ValidationExecutor& validations_;
  std::vector<std::string> keep_on_nodes_;
  std::map<Key, Entry> entries_;    // of commits under way
  std::map<Key, Metrics> metrics_;  // rank 0's, by report_seq
};

}  // namespace train
