// What the controller knows about the ranks of one attempt: where each is, how far it has got,
// whether it waits, and how it ended. Facts only; the machines beside it decide what follows. They
// ask after each event, and each of 65,536 ranks makes many: what is asked so often is counted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "launcher/core/placement.h"
#include "launcher/core/run_events.h"

namespace train {

class RankTable {
 public:
  struct Entry {
    NodeId node;
    bool joined = false;                  // its SDK is connected
    std::uint64_t reported = 0;           // last report_seq
    std::optional<std::uint64_t> paused;  // report_seq at which it waits
    std::uint64_t checkpoint_seq = 0;     // of its last pause
    bool arrived = false;                 // it paused where it was told to continue to
    bool checkpoint_pending = false;      // it makes a checkpoint there once it is told to
    std::optional<WorkerEnd> end;
    bool lost = false;  // its node is lost: its end will never be reported
    bool alive() const { return !end && !lost; }
    /// Return whether the rank can be asked to stop gracefully.
    bool reports() const { return alive() && joined && reported > 0; }
    /// Return the last known report, whether the rank sent it or its supervisor named it at the
    /// rank's end.
    std::uint64_t known_report() const {
      return std::max(reported, end ? end->last_report_seq : std::uint64_t{0});
    }
  };

  RankTable() = default;
  explicit RankTable(const Placement& placement);

  /// Return the rank's entry, or nullptr for a rank that does not exist.
  const Entry* find(Rank rank) const;
  /// Return the entries of all ranks. Those that train come first.
  const std::vector<Entry>& all() const { return entries_; }
  /// Return how many ranks train. What is counted below, and the reports, is of them; the others
  /// neither report nor pause.
  std::size_t size() const { return training_; }
  /// Return whether the rank exists, and trains.
  bool trains(Rank rank) const {
    return rank.value >= 0 && static_cast<std::size_t>(rank.value) < training_;
  }
  /// Let `change` alter the rank's entry. Return false for a rank that does not exist.
  template <class Change>
  bool change(Rank rank, Change&& change) {
    if (find(rank) == nullptr) return false;
    Entry& entry = entries_[static_cast<std::size_t>(rank.value)];
    count(rank, -1);
    change(entry);
    count(rank, 1);
    ++version_;
    return true;
  }
  /// Return a number that is another after each change.
  std::uint64_t version() const { return version_; }

  void ended(Rank rank, const WorkerEnd& end);
  /// Mark the living ranks on the node as lost. Return them.
  std::vector<Rank> node_lost(NodeId node);
  /// Treat the ranks that wait elsewhere as running, until they report that they are at
  /// `report_seq`. Ranks that an earlier launcher sent there may already have arrived.
  void resume_until(std::uint64_t report_seq);

  bool all_ended() const { return counts_.alive == 0; }
  bool any_ended() const { return counts_.alive < training_; }
  /// Return whether a rank of another role is alive.
  bool any_other_alive() const { return others_alive_ > 0; }
  bool any_joined() const { return counts_.joined > 0; }
  bool all_joined() const { return counts_.joined == training_; }
  bool any_reports() const { return counts_.reporting > 0; }
  bool any_ever_reported() const { return counts_.ever_reported > 0; }
  /// Return whether all ended well without being asked to.
  bool all_ended_by_themselves() const { return counts_.ended_by_themselves == training_; }
  /// Return whether a rank that reports waits, and whether one does not.
  bool any_paused() const { return counts_.paused > 0; }
  bool any_on_the_way() const { return counts_.paused < counts_.reporting; }
  /// Return whether a rank that reports has yet to make its checkpoint where it waits.
  bool any_checkpoint_pending() const { return counts_.checkpoint_pending > 0; }
  bool all_living_paused() const { return counts_.living_paused == counts_.alive; }
  /// Return whether a living rank has not reported yet.
  bool any_silent() const { return counts_.reporting < counts_.alive; }
  /// Return the last report at which a rank that reports waits.
  std::uint64_t furthest_pause() const;
  /// Return the next report that no rank has passed.
  std::uint64_t next_common_report() const;
  /// Return the last report of the ranks that ended by themselves.
  const std::optional<std::uint64_t>& own_end_at() const { return own_end_at_; }

 private:
  struct Counts {
    std::size_t alive = 0, living_paused = 0, joined = 0, ever_reported = 0;
    std::size_t reporting = 0, paused = 0, checkpoint_pending = 0;  // of those that report
    std::size_t ended_by_themselves = 0;
  };
  struct RanksHere {
    std::int32_t first = 0, count = 0;
  };

  void count(Rank rank, int by);

  std::vector<Entry> entries_;  // by rank
  std::size_t training_ = 0;    // the first ones
  Counts counts_;
  std::size_t others_alive_ = 0;
  std::map<NodeId, std::vector<RanksHere>> on_node_;
  std::uint64_t version_ = 0;
  std::optional<std::uint64_t> own_end_at_;
};

}  // namespace train
