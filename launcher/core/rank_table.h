// The ranks of one attempt, as far as the controller has heard of them: where each is, how far it
// has got, whether it waits, and how it ended. Facts only; the machines beside it decide what
// follows from them.
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
    bool arrived = false;                 // it paused where it was told to go on to
    std::optional<WorkerEnd> end;
    bool lost = false;  // its node is: no end will come
    bool alive() const { return !end && !lost; }
    /// Return whether the rank can be asked to stop gracefully.
    bool reports() const { return alive() && joined && reported > 0; }
    /// Return the last known report, from what the rank sent or from what its supervisor said at
    /// its end.
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
  /// Mark the ranks on the node that were alive as lost. Return them.
  std::vector<Rank> node_lost(NodeId node);
  /// Let each rank that waits elsewhere go on, until it says that it is at `report_seq`. Those that
  /// an earlier launcher had sent there are there already.
  void resume_until(std::uint64_t report_seq);

  bool all_ended() const;
  bool any_ended() const;
  bool any_joined() const;
  bool all_joined() const;
  bool any_reports() const;
  bool any_ever_reported() const;
  /// Return whether all ended well without having been asked to.
  bool all_ended_by_themselves() const;
  /// Return whether all ranks that report wait at this report.
  bool all_paused_at(std::uint64_t report_seq) const;
  /// Return the next report that no rank is past.
  std::uint64_t next_common_report() const;
  /// Return the last report of the ranks that ended by themselves.
  const std::optional<std::uint64_t>& own_end_at() const { return own_end_at_; }

 private:
  std::vector<Entry> entries_;  // by rank
  std::optional<std::uint64_t> own_end_at_;
};

}  // namespace train
