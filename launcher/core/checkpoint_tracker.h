// Tracks which shards of the running attempt's checkpoints have arrived. The k-th checkpoint
// consists of every rank's k-th shard. It is committed once all its shards have arrived. Commits
// follow one after the other, in order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/run_events.h"
#include "lib/base/time.h"

namespace train {

inline constexpr Duration kShardWarnAfter = seconds(60);
/// How many outcomes of resolved checkpoints are kept, for shards that are sent again.
inline constexpr std::size_t kOutcomesKept = 256;

class CheckpointTracker {
 public:
  explicit CheckpointTracker(int world_size = 0) : world_size_(world_size) {}
  /// Return the tracker for an attempt that an earlier launcher began. The attempt's newest
  /// committed checkpoint is its `resolved`-th, at `path`. resolved_before() handles later ones
  /// that the earlier launcher gave up.
  static CheckpointTracker adopted(int world_size, std::uint64_t resolved, const std::string& path);

  /// A checkpoint to commit, or to give up with the error that the ranks are told.
  struct Ready {
    std::uint64_t checkpoint_seq = 0;
    std::vector<StagedShard> shards;  // by rank
    std::string error;
    bool no_space = false;
  };
  struct Outcome {
    std::uint64_t checkpoint_seq = 0;
    std::string path, error;  // one of them is empty
    bool operator==(const Outcome&) const = default;
  };
  /// Add a shard. A second one with the same rank and checkpoint_seq replaces the first: it was
  /// sent again. Return the outcome if the checkpoint is already resolved: the sender does not know
  /// it yet.
  std::optional<Outcome> add(StagedShard shard, TimePoint now);
  /// Record that an earlier launcher resolved all checkpoints up to `checkpoint_seq`, as a
  /// supervisor reports. Return the outcomes of those that still wait here for shards: their ranks
  /// do not know them yet.
  std::vector<Outcome> resolved_before(std::uint64_t checkpoint_seq);
  /// Return the next checkpoint in order if its shards are complete and no other commit is under
  /// way.
  std::optional<Ready> take_ready();
  /// End the commit under way. For a second answer, or an answer about another checkpoint_seq,
  /// change nothing and return false.
  bool commit_finished(Outcome outcome);

  bool committing() const { return committing_.has_value(); }
  /// Return the index of the newest checkpoint that is committed, given up or being committed.
  std::uint64_t resolved() const { return resolved_; }
  /// Return how many checkpoints wait for shards.
  std::size_t incomplete() const { return waiting_.size(); }
  std::vector<std::string> overdue(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Waiting {
    std::map<Rank, StagedShard> shards;
    TimePoint since;
    bool warned = false;
  };
  int world_size_ = 0;
  void remember(Outcome outcome);

  std::map<std::uint64_t, Waiting> waiting_;
  std::map<std::uint64_t, Outcome> outcomes_;  // the newest kOutcomesKept
  std::optional<std::uint64_t> committing_;
  std::uint64_t resolved_ = 0;
};

}  // namespace train
