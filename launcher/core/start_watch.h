// The deadlines of an attempt's preparing and starting: says which nodes it waits for, and fails it
// once they are too late. Pure; AttemptController asks it after each event.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/core/attempt_cause.h"
#include "launcher/core/attempt_group.h"

namespace train {

/// How long nodes may prepare, and then start their workers, unless start_timeout says otherwise.
/// Nodes that may have to fetch a checkpoint first have no such limit: it may have any size.
inline constexpr Duration kStartTimeout = std::chrono::minutes(30);
/// When it is said for the first time what the attempt waits for; then after twice this time, and
/// so on.
inline constexpr Duration kStartNoteAfter = std::chrono::minutes(1);

class StartWatch {
 public:
  /// Both outlive this object.
  StartWatch(const RunContext& run, const AttemptGroup& group) : run_(run), group_(group) {}

  /// Do what is due while nodes prepare or start. Return the failure that is to end the attempt.
  std::optional<AttemptCause::Failure> advance();
  std::optional<TimePoint> next_deadline() const;

 private:
  /// Return whether nodes may have to be set up, which has a time limit of its own.
  bool sets_up() const { return !run_.spec.per_node_setup.command.empty(); }
  bool ships() const { return run_.spec.ship.on; }
  bool preparing() const { return run_.progress.state() == RunState::Preparing; }
  std::vector<NodeId> late_nodes() const;
  std::string task() const;
  std::string who(const std::vector<NodeId>& nodes) const;
  std::optional<Duration> limit() const;

  const RunContext run_;
  const AttemptGroup& group_;
  std::optional<RunState> step_;  // since `since_`: preparing or starting
  TimePoint since_{};
  Duration note_after_{};
};

}  // namespace train
