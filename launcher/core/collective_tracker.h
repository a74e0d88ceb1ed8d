// Runs the small collectives over the control plane (barrier, broadcast, reduce, row counts): it
// gathers every rank's part of the n-th call, then releases all ranks. It finds ranks that are
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
  std::string error;                            // or why there will be none
  std::optional<Rank> only_for = {};  // the rank that asked again: its answer was lost with a link
  bool operator==(const CollectiveRelease&) const = default;
};

inline constexpr std::size_t kAnswersKept =
    64;  // of calls that are over; a rank is at most a few calls behind the others
inline constexpr std::size_t kCollectiveResultBytesMax =
    3u << 20;  // of all ranks' parts: the answer is one frame
inline constexpr Duration kCollectiveWarnAfter =
    seconds(60);  // as Ray's; pytorch#58229-like complaints ask who is missing

class CollectiveTracker {
 public:
  explicit CollectiveTracker(int world_size = 0) : world_size_(world_size) {}

  /// Take in a rank's part. Return an answer when the part completes the call or shows that it
  /// never will complete. Also when the call is over already: the rank sent its part again since
  /// the answer did not arrive.
  std::optional<CollectiveRelease> join(Rank rank, std::uint64_t sequence, const std::string& name,
                                        std::string data, TimePoint now);
  /// An earlier launcher had answered the call: whoever waits for it, or asks later, gets that
  /// answer.
  std::optional<CollectiveRelease> answered(CollectiveRelease release);
  /// A rank has ended: calls that it did not join never complete.
  std::vector<CollectiveRelease> rank_ended(Rank rank);
  /// Return a text, once, for each call that has waited long: "barrier: waiting for ranks 3, 7 for
  /// 1 min 0 s".
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
