// What the controller knows about the ranks of one attempt: where each is, how far it has got,
// whether it waits, and how it ended. Facts only; the machines beside it decide what follows.
#pragma once

#include <algorithm>
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
  Entry* find(Rank rank);
  const Entry* find(Rank rank) const { return const_cast<RankTable*>(this)->find(rank); }
  const std::vector<Entry>& all() const { return entries_; }
  std::size_t size() const { return entries_.size(); }

  void ended(Entry& entry, const WorkerEnd& end);
  /// Mark the living ranks on the node as lost. Return them.
  std::vector<Rank> node_lost(NodeId node);
  /// Treat the ranks that wait elsewhere as running, until they report that they are at
  /// `report_seq`. Ranks that an earlier launcher sent there may already have arrived.
  void resume_until(std::uint64_t report_seq);

  bool all_ended() const;
  bool any_ended() const;
  bool any_joined() const;
  bool all_joined() const;
  bool any_reports() const;
  bool any_ever_reported() const;
  /// Return whether all ended well without being asked to.
  bool all_ended_by_themselves() const;
  /// Return whether all ranks that report wait at this report.
  bool all_paused_at(std::uint64_t report_seq) const;
  /// Return the next report that no rank has passed.
  std::uint64_t next_common_report() const;
  /// Return the last report of the ranks that ended by themselves.
  const std::optional<std::uint64_t>& own_end_at() const { return own_end_at_; }

 private:
  std::vector<Entry> entries_;  // by rank
  std::optional<std::uint64_t> own_end_at_;
};

}  // namespace train
