// The ingest workers of one attempt: which of their places are in use, which of them serve, and
// what the ranks are told of it (rosters). Each dataset uses its first places: more of them when
// IngestPolicy says so. Supervisors keep the processes running, and say again what they know to a
// launcher that attaches. Pure: events in, effects out.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/ingest_policy.h"
#include "launcher/core/placement.h"
#include "launcher/core/run_events.h"

namespace train {

class IngestBoard {
 public:
  using Effect = std::variant<KeepIngest, EndIngest, SendRoster, IngestChanged, Note>;
  using Effects = std::vector<Effect>;

  /// `adopted`: an earlier launcher began the attempt; nothing is ordered or told before found().
  IngestBoard(const JobSpec& spec, Attempt attempt, const Placement& placement, bool adopted);

  bool empty() const { return datasets_.empty(); }

  /// The node's ranks, if it has any, were started: so may its ingest workers be.
  Effects node_started(NodeId node);
  /// The node's supervisor can be reached, for the first time or again. Its orders may be lost.
  Effects attached(const SupervisorAttached& event);
  /// All supervisors of the adopted attempt have answered.
  Effects found();
  /// Nothing is left on the node, or nothing that can be reached, for good.
  Effects node_gone(NodeId node);
  /// The same, of a node without ranks, which may come back.
  Effects node_lost(NodeId node);

  Effects on(const IngestServes& event, const std::string& node_name);
  Effects on(const IngestGone& event, const std::string& node_name);
  void on(const IngestSampled& event, TimePoint now);
  void on(const DatasetsRead& event, TimePoint now);
  /// Change the numbers of ingest workers as the samples suggest.
  Effects advance(TimePoint now);

  /// Return how many ingest workers there should be: of all datasets, or of one; and how many of
  /// one serve.
  int wanted() const;
  int wanted(const std::string& dataset) const;
  int serving(const std::string& dataset) const;
  /// Return what the ranks of a node are told; none: of one without ingest workers of its own.
  IngestRoster roster_for(std::optional<NodeId> node) const;

 private:
  struct Place {
    NodeId node;
    IngestPlace told = {};  // of the process that serves; no name: none does
    bool known = false;     // of an adopted attempt: its supervisor keeps a process there
    std::uint32_t deaths = 0;
  };
  struct Dataset {
    IngestSpec spec;
    std::vector<Place> places;  // by slot − 1
    int wanted = 0;             // the first ones
    IngestPolicy policy;
    IngestChanged said = {};  // the newest
  };

  Dataset* find(const std::string& dataset);
  Place* find(NodeId node, const std::string& dataset, std::int32_t slot);
  bool in_use(const Dataset& dataset, std::int32_t slot) const { return slot <= dataset.wanted; }
  void order(const std::string& name, const Dataset& dataset, std::int32_t slot,
             Effects& effects) const;
  void change(const std::string& name, Dataset& dataset, int wanted, TimePoint now,
              Effects& effects);
  void roster_changed(Effects& effects);
  void tell_changes(Effects& effects);

  const Attempt attempt_;
  const bool many_nodes_;
  std::map<std::string, Dataset> datasets_;
  std::set<NodeId> nodes_;    // as far as they are there
  std::set<NodeId> ranks_;    // of them, those that have ranks
  std::set<NodeId> started_;  // of them, where processes may be started
  bool held_;                 // until found()
  std::uint64_t version_ = 0;
};

}  // namespace train
