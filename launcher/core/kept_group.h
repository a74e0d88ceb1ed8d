// The workers of an earlier run that have stayed, on the nodes' supervisors, for the first attempt
// of this one: where they wait, and whether they can be used. All of them are, or none is. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "launcher/core/placement.h"
#include "lib/base/ids.h"
#include "lib/base/time.h"

namespace train {

/// How long a node's supervisor has to tell that they wait there.
inline constexpr Duration kKeptToldWithin = seconds(5);

struct KeptWorkersOf {
  Attempt attempt;      // the number under which their supervisors know them
  Placement placement;  // of that attempt
  std::string differs;  // why they cannot be used: what this run has otherwise; "": nothing
};

class KeptGroup {
 public:
  explicit KeptGroup(std::optional<KeptWorkersOf> kept) : kept_(std::move(kept)) {}

  /// Return whether it is still to be decided if this attempt's workers are used.
  bool open(Attempt attempt) const { return kept_ && kept_->attempt == attempt; }
  /// Return whether it is known already that they are of no use.
  bool useless() const { return kept_ && !kept_->differs.empty(); }
  /// A node has told whether the attempt has a supervisor there.
  void node_lists(NodeId node, bool supervisor, TimePoint now);
  /// That supervisor has told whether processes wait there, and nothing else.
  void supervisor_tells(NodeId node, bool they_wait);
  /// Return whether the decision has to wait for what supervisors tell.
  bool waits(TimePoint now) const;
  std::optional<TimePoint> next_deadline() const;

  struct Decision {
    Attempt attempt;              // whose number the first attempt gets
    std::string why_not = {};     // they are not used; "": they are
    std::set<NodeId> useless_on;  // where they are to end
  };
  /// Decide, once, for this placement; none if there are no such workers. `next`: the number that
  /// the first attempt would have without them.
  std::optional<Decision> decide(const Placement& placement, Attempt next);
  /// Return whether this attempt was to use them.
  bool used_by(Attempt attempt) const { return used_by_ == attempt; }

 private:
  std::string why_not(const Placement& placement, Attempt next) const;
  bool all_tell() const;

  enum class Told { Nothing, TheyWait, Otherwise };
  std::optional<KeptWorkersOf> kept_;  // until it is decided
  std::map<NodeId, Told> there_;
  std::optional<TimePoint> told_by_;  // then nobody is waited for any more
  std::optional<Attempt> used_by_;
};

}  // namespace train
