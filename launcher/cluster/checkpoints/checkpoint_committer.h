// Performs what the controller decides about commits: on the disk thread, one after the other, each
// answered by CommitFinished. Storage may hang there: a commit that the controller gives up is
// answered at once, and does not appear any more, unless that is under way already.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cluster/checkpoints/checkpoint_manager.h"
#include "launcher/cluster/checkpoints/checkpoint_observer.h"
#include "lib/base/metrics.h"

namespace train {

class CheckpointCommitter {
 public:
  struct Uses {
    asio::any_io_executor executor;
    asio::thread_pool& disk;
    CheckpointManager& keeper;  // on the disk thread
    CheckpointObserver& observer;
    const Clock& clock;
    std::function<CheckpointManager::Pinned()> pinned;
    std::function<void(const RunEvent&)> feed;
  };
  explicit CheckpointCommitter(Uses uses)
      : uses_(std::move(uses)), keep_on_nodes_(uses_.keeper.keep_on_nodes()) {}

  /// Rank 0's, that carried a checkpoint. By report report_seq: those that earlier launchers heard.
  void reported(ReportRecord report);
  void metrics_are(std::map<std::pair<Attempt, std::uint64_t>, Metrics> metrics) {
    metrics_ = std::move(metrics);
  }
  /// `newest`: rank 0's metrics, where those of the checkpoint's own report are not known.
  asio::awaitable<void> commit(Commit action, Metrics newest);
  /// Also of one that is still to come here.
  void give_up(const GiveUpCommit& action);
  /// CheckpointOutcome::keep, after the newest commit.
  const std::vector<std::string>& keep_on_nodes() const { return keep_on_nodes_; }
  /// How many were given up, and keep the disk thread.
  std::size_t hanging() const;

 private:
  using Key = std::pair<Attempt, std::uint64_t>;
  struct Entry {
    const std::shared_ptr<CommitFence> fence = std::make_shared<CommitFence>();
    bool given_up = false;
  };
  Metrics take_metrics(const Commit& action, Metrics newest);
  void committed(const Commit& action, const CheckpointManager::Outcome& outcome);

  Uses uses_;
  std::vector<std::string> keep_on_nodes_;
  std::map<Key, Entry> entries_;    // of commits under way
  std::map<Key, Metrics> metrics_;  // rank 0's, by report report_seq
};

}  // namespace train
