// Brings the worker group of an attempt to its end: by force after a failure, gracefully if
// somebody asks for it or if a group of another size is to begin. Quiesce decides how ranks meet,
// and Teardown when workers are killed; this machine chooses between the two, remembers why, and
// gives the orders.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/core/attempt_cause.h"
#include "launcher/core/attempt_group.h"
#include "launcher/core/quiesce.h"
#include "launcher/core/stuck_workers.h"
#include "launcher/core/teardown.h"

namespace train {

/// The time from TERM to KILL for the survivors of a failed group.
inline constexpr Duration kSurvivorGrace = seconds(1);
inline constexpr const char* kNotStartedBefore = "an earlier launcher had not started all workers";
inline constexpr const char* kStoppedBefore =
    "the workers were being stopped when this launcher came";

class GroupEnding {
 public:
  /// Both outlive this object.
  GroupEnding(const RunContext& run, AttemptGroup& group) : run_(run), group_(group) {}

  const AttemptCause& cause() const { return cause_; }
  /// Return the pause, once it was asked for.
  const std::optional<Quiesce>& quiesce() const { return quiesce_; }
  bool escalated() const { return teardown_.escalated(); }

  // ---- why it ends
  /// Stop on request. `again`: this is not the first request.
  void stop(bool again, const std::string& reason);
  /// Stop a running group, as the run was told to, perhaps before this group was found.
  void stop_found();
  /// Let the ranks meet, hand over a checkpoint, and leave, so that a group of another size can
  /// begin. If no rank reports, take the group down. `at_checkpoint`: the ranks meet where they
  /// hand over a checkpoint anyway.
  void resize(AttemptCause::Resize resize, TimePoint deadline, bool at_checkpoint);
  /// Leave a node within `grace`. `text`: the reason.
  void drain(Duration grace, const std::string& text);
  /// Do that in a group that has been found now.
  void drain_found();
  void fail(AttemptCause::Failure failure);
  /// Take the group down without a failure, so that another can begin. `lacked_room`: a node had
  /// less room than it had offered.
  void give_up(const std::string& reason, bool lacked_room = false);
  /// Take the group down, unless that has already begun. Whether it ended well is decided once it
  /// has ended.
  void take_down(const std::string& reason);
  /// All that train have ended. Let the workers of other roles end, too.
  void training_ended(const std::string& reason);
  /// Handle ranks that an earlier launcher asked to pause, or told to leave.
  void paused_before();
  /// Continue that pause, once all of the group is found.
  void continue_pause();
  /// Handle workers that were stopped by an earlier launcher, or by a supervisor left alone too
  /// long.
  void stopped_before();
  /// Remember what the workers do that are to end.
  void on(const RanksSampled& event);
  /// Count the end of a rank.
  void rank_ended(Rank rank) { cause_.rank_ended(rank); }
  /// Do not wait for storage that hangs.
  void escalate() { teardown_.escalate(); }

  // ---- how it ends
  /// Do what is due while supervisors are looked for.
  void advance_attaching();
  /// Do what is due while ranks are being brought to rest.
  void advance_pausing();
  /// Send a node the newest order again, if there is one.
  void send_again(NodeId node);
  /// Return whether nothing is left to wait for: no worker, no shard, no commit.
  bool torn_down();
  /// Describe the end.
  AttemptEnded describe() const;
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Drain {
    TimePoint deadline;
    std::string text;
  };
  void drain_by(TimePoint deadline, const std::string& text);
  void begin_teardown(Duration grace, const std::string& reason);
  void stop_hosts(Duration grace, const std::string& reason);
  void pause(const std::string& reason, TimePoint deadline, bool at_checkpoint);
  void escalate_pause(TimePoint deadline);
  void send_pause();
  Pause pause_for(NodeId node) const;
  bool gives_up_shards();
  void give_up_stuck_nodes();

  RunState state() const { return run_.progress.state(); }
  TimePoint now() const { return run_.progress.now(); }
  Duration stop_grace() const { return run_.spec.run_config.failure_config.stop_grace; }

  const RunContext run_;
  AttemptGroup& group_;
  AttemptCause cause_;
  std::optional<Quiesce> quiesce_;
  Teardown teardown_;
  StuckWorkers stuck_;
  std::vector<StuckWorkers::Stuck> stuck_nodes_;  // that were given up
  std::optional<Drain> drain_;                    // of a group that was still being looked for
};

}  // namespace train
