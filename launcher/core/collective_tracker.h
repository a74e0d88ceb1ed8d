// Runs the small collectives over the control plane (barrier, broadcast, reduce, row counts): it
// gathers every rank's part of the n-th call, then releases all ranks. It detects ranks that are
// missing, that called something else, or that have already ended.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/core/shared_value.h"
#include "lib/base/ids.h"
#include "lib/base/time.h"

namespace train {

struct CollectiveRelease {
  std::uint64_t sequence = 0;
  SharedValue<std::vector<std::string>> parts;  // by rank
  std::string error;                            // or why there are none
  std::optional<Rank> only_for = {};  // the rank that asked again: its answer was lost with a link
  bool operator==(const CollectiveRelease&) const = default;
};

/// How many answers to past calls are kept. A rank is at most a few calls behind the others.
inline constexpr std::size_t kAnswersKept = 64;
/// The limit for all ranks' parts together, because the answer is one frame.
inline constexpr std::size_t kCollectiveResultBytesMax = 3u << 20;
/// The same as Ray's. Users want to know which ranks are missing, as in pytorch#58229.
inline constexpr Duration kCollectiveWarnAfter = seconds(60);

class CollectiveTracker {
 public:
  explicit CollectiveTracker(int world_size = 0) : world_size_(world_size) {}

  /// Take in a rank's part. Return an answer if the part completes the call or shows that the call
  /// can never complete. Also return one if the call is already over: the rank sent its part again
  /// because the answer did not arrive.
  std::optional<CollectiveRelease> join(Rank rank, std::uint64_t sequence, const std::string& name,
                                        std::string data, TimePoint now);
  /// Record that an earlier launcher answered the call: ranks that wait for it, or ask later, get
  /// that answer.
  std::optional<CollectiveRelease> answered(CollectiveRelease release);
  /// Record that a rank has ended. Return an error for each call that can no longer complete
  /// without it.
  std::vector<CollectiveRelease> rank_ended(Rank rank);
  /// Return a message, once, for each call that has waited long: "barrier: waiting for ranks 3, 7
  /// for 1 min 0 s".
  std::vector<std::string> overdue(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Call {
    std::string name;
    Rank named_by;
    std::map<Rank, std::string> parts;
    std::size_t bytes = 0;  // of all parts
    TimePoint since;
    bool warned = false;
  };
  std::string missing_ranks(const Call& call) const;
  CollectiveRelease answer(CollectiveRelease release);

  int world_size_ = 0;
  std::map<std::uint64_t, Call> calls_;
  std::map<std::uint64_t, CollectiveRelease> answered_;  // the newest kAnswersKept
  std::optional<std::uint64_t> forgotten_;               // answers up to here are no longer kept
  std::set<Rank> ended_;
};

/// Return "rank 3", "ranks 3, 7", "ranks 0, 1, 2, … (12 in all)".
std::string list_ranks(const std::vector<Rank>& ranks);

}  // namespace train
