// The ranks of one attempt, as far as the controller has heard of them: where each is, how far it
// has come, whether it waits, and how it ended. Facts only; what follows from them is decided by
// the machines beside it.
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
    /// It can be asked to stop gracefully.
    bool reports() const { return alive() && joined && reported > 0; }
    /// By what came from it, or by its supervisor's word at its end.
    std::uint64_t known_report() const {
      return std::max(reported, end ? end->last_report_seq : std::uint64_t{0});
    }
  };

  RankTable() = default;
  explicit RankTable(const Placement& placement);

  /// None for ranks that do not exist.
  Entry* find(Rank rank);
  const Entry* find(Rank rank) const { return const_cast<RankTable*>(this)->find(rank); }
  const std::vector<Entry>& all() const { return entries_; }
  std::size_t size() const { return entries_.size(); }

  void ended(Entry& entry, const WorkerEnd& end);
  /// The ranks there that were alive are lost now.
  std::vector<Rank> node_lost(NodeId node);
  /// Whoever waits elsewhere goes on, and says so again once it is at `report_seq`. Those that an
  /// earlier launcher had told to are there already.
  void resume_until(std::uint64_t report_seq);

  bool all_ended() const;
  bool any_ended() const;
  bool any_joined() const;
  bool all_joined() const;
  bool any_reports() const;
  bool any_ever_reported() const;
  /// All came to a good end that nobody had asked for.
  bool all_ended_by_themselves() const;
  /// All that report wait at this one.
  bool all_paused_at(std::uint64_t report_seq) const;
  /// The next report that no rank is past.
  std::uint64_t next_common_report() const;
  /// The last report of the ranks that came to their end by themselves.
  const std::optional<std::uint64_t>& own_end_at() const { return own_end_at_; }

 private:
  std::vector<Entry> entries_;  // by rank
  std::optional<std::uint64_t> own_end_at_;
};

}  // namespace train
