// A run among those that share a pool of nodes, and whose turn it is when there is too little room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>

#include "lib/model/fields.h"
#include "lib/model/resources.h"

namespace train {

inline constexpr std::int32_t kPriorityMax = 1000;  // and the least is −1000

inline constexpr std::int32_t kShareMax = 1'000'000;
inline constexpr std::size_t kRunsBeforeMax = 16;  // that a run is told of
inline constexpr std::size_t kPoolRunsMax = 1000;  // that a node tells `train-run queue` of

/// What decides a run's place in the queue.
struct QueuePlace {
  bool placed = false;        // it does not wait: the room is what its workers have
  std::int32_t priority = 0;  // a higher one goes first
  bool begun = false;         // it has had workers, and waits for its next attempt
  bool waited_long = false;   // so long that shares do not count any more
  /// What its owner will have when it is this run's turn, before this run has anything: what the
  /// owner's other runs have now, and what those want that wait before this one. In thousandths of
  /// what the pool has of the resource of which that is the largest part.
  std::int32_t share = 0;
  std::int64_t since_ms = 0;  // when it was asked for, in milliseconds since 1970
  bool operator==(const QueuePlace&) const = default;
  TRAIN_FIELDS(placed, priority, begun, waited_long, share, since_ms)
};

/// Return whether run `a` has its turn before run `b`: one that has its room, then by priority;
/// then one that has begun, one that has waited long, the one whose owner has less of the pool
/// (dominant resource fairness: Ghodsi et al., NSDI 2011), and the older one. An order of all runs
/// that is the same on each node, because it depends only on what each run says of itself. So no
/// two runs wait for each other.
inline bool goes_before(const QueuePlace& a, std::string_view run_a, const QueuePlace& b,
                        std::string_view run_b) {
  const auto order = [](const QueuePlace& place, std::string_view run) {
    return std::tuple(!place.placed, -place.priority, !place.begun, !place.waited_long,
                      place.waited_long ? 0 : place.share, place.since_ms, run);
  };
  return order(a, run_a) < order(b, run_b);
}

/// Return whether this is so because of something else than the shares: within the runs of an
/// owner.
inline bool goes_before_of_owner(QueuePlace a, std::string_view run_a, QueuePlace b,
                                 std::string_view run_b) {
  a.share = b.share = 0;
  a.waited_long = b.waited_long = false;
  return goes_before(a, run_a, b, run_b);
}

/// A run as a node knows it.
struct PoolRun {
  std::string run_id = {}, run_name = {};
  std::string owner = {};  // who started it
  QueuePlace place = {};
  std::int32_t workers = 0;  // that it has or wants, on all nodes; 0: not known
  Resources claimed = {};    // what it has on this node, but for resources of the user's own
  bool keeps = false;        // room is kept for it here, beside what it has
  bool operator==(const PoolRun&) const = default;
  TRAIN_FIELDS(run_id, run_name, owner, place, workers, claimed, keeps)
};

}  // namespace train
