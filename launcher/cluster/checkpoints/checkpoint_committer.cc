#include "launcher/cluster/checkpoints/checkpoint_committer.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <optional>

#include "lib/net/blocking.h"

namespace train {

void CheckpointCommitter::reported(ReportRecord report) {
  metrics_[{Attempt{report.attempt}, report.report_seq}] = std::move(report.metrics);
}

Metrics CheckpointCommitter::take_metrics(const Commit& action, Metrics newest) {
  const auto first = std::find_if(action.shards.begin(), action.shards.end(),
                                  [](const auto& shard) { return shard.rank == Rank{0}; });
  if (first == action.shards.end()) return {};
  const Key report{action.attempt, first->report_seq};
  const auto found = metrics_.find(report);
  Metrics metrics = found == metrics_.end() ? std::move(newest) : std::move(found->second);
  metrics_.erase(metrics_.begin(), metrics_.upper_bound(report));
  return metrics;
}

asio::awaitable<void> CheckpointCommitter::commit(Commit action, Metrics newest) {
  const Metrics metrics = take_metrics(action, std::move(newest));
  const Key key{action.attempt, action.checkpoint_seq};
  const std::shared_ptr<CommitFence> fence = entries_[key].fence;
  auto committing = run_on<CheckpointManager::Outcome>(
      context_.disk,
      [&, created = format_utc(context_.clock.wall()), pinned = validations_.pinned()] {
        return context_.manager.commit(action, metrics, created, pinned, fence.get());
      });
  const auto committed = co_await std::move(committing);
  const bool given_up = entries_.at(key).given_up;
  entries_.erase(key);
  if (committed) co_return this->committed(action, *committed);
  if (given_up) co_return;  // give_up() has answered it
  context_.events.feed(CommitFinished{.attempt = action.attempt,
                                      .checkpoint_seq = action.checkpoint_seq,
                                      .checkpoint = {},
                                      .error = committed.error().describe(),
                                      .no_space = committed.error().code == Errc::NoSpace});
}

void CheckpointCommitter::committed(const Commit& action,
                                    const CheckpointManager::Outcome& outcome) {
  keep_on_nodes_ = outcome.keep;
  context_.observer.committed(action, outcome);
  context_.events.feed(CommitFinished{.attempt = action.attempt,
                                      .checkpoint_seq = action.checkpoint_seq,
                                      .checkpoint = outcome.committed.info,
                                      .error = "",
                                      .space = outcome.space,
                                      .removed = outcome.removed});
}

void CheckpointCommitter::give_up(const GiveUpCommit& action) {
  Entry& entry = entries_[{action.attempt, action.checkpoint_seq}];
  entry.given_up = true;
  entry.may_come = !entry.fence->close();
  CommitFinished finished{.attempt = action.attempt,
                          .checkpoint_seq = action.checkpoint_seq,
                          .checkpoint = {},
                          .error = action.reason,
                          .may_come = entry.may_come};
  if (finished.may_come) finished.error += "; `train-run checkpoint list` will show it if it was";
  asio::post(context_.executor, [this, finished] { context_.events.feed(finished); });
}

std::vector<std::string> CheckpointCommitter::keep_on_nodes() const {
  std::vector<std::string> keep = keep_on_nodes_;
  for (const auto& [key, entry] : entries_) {
    const auto data = context_.manager.data_on_nodes(key.first, key.second);
    if (entry.may_come && data) keep.push_back(*data);
  }
  return keep;
}

std::size_t CheckpointCommitter::hanging() const {
  return static_cast<std::size_t>(std::count_if(
      entries_.begin(), entries_.end(), [](const auto& entry) { return entry.second.given_up; }));
}

}  // namespace train
