// Tracks which shards of the running attempt's checkpoints have come. The k-th checkpoint is every
// rank's k-th. It is committed when all its shards are there; commits go one after the other, in
// order.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/run_events.h"
#include "lib/base/time.h"

namespace train {

inline constexpr Duration kShardWarnAfter = seconds(60);
inline constexpr std::size_t kOutcomesKept =
    256;  // of resolved checkpoints, for shards that are sent again

class CheckpointTracker {
 public:
  explicit CheckpointTracker(int world_size = 0) : world_size_(world_size) {}
  /// Return the tracker for an attempt that an earlier launcher began. The newest of its
  /// checkpoints that is committed is the `resolved`-th, at `path`. resolved_before() tells of
  /// later ones that the earlier launcher gave up.
  static CheckpointTracker adopted(int world_size, std::uint64_t resolved, const std::string& path);

  struct Ready {  // to be committed, or given up with the error to tell the ranks
    std::uint64_t checkpoint_seq = 0;
    std::vector<StagedShard> shards;  // by rank
    std::string error;
    bool no_space = false;
  };
  struct Outcome {
    std::uint64_t checkpoint_seq = 0;
    std::string path, error;  // one of them
    bool operator==(const Outcome&) const = default;
  };
  /// Take in a shard. A second one of the same rank and checkpoint_seq replaces it: it was sent
  /// again. Return the outcome where the checkpoint is resolved already: the sender has not heard
  /// of it.
  std::optional<Outcome> add(StagedShard shard, TimePoint now);
  /// An earlier launcher had resolved all up to `checkpoint_seq`, according to a supervisor that it
  /// told. Return the outcomes of those that still wait here for shards: their ranks have not heard
  /// of them.
  std::vector<Outcome> resolved_before(std::uint64_t checkpoint_seq);
  /// Return the next checkpoint in order whose shards are complete; none while one is being
  /// committed.
  std::optional<Ready> take_ready();
  /// End the commit under way. A second answer, or an answer about another checkpoint_seq, changes
  /// nothing and returns false.
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
