// Brings the worker group of an attempt to its end: by force after a failure, gracefully where
// somebody asks for it or a group of another size is to begin. Quiesce decides how ranks meet,
// Teardown when workers are killed; this machine decides which of the two it is, remembers why, and
// gives the orders.
#pragma once

#include <optional>
#include <string>

#include "launcher/core/attempt_cause.h"
#include "launcher/core/attempt_group.h"
#include "launcher/core/quiesce.h"
#include "launcher/core/teardown.h"

namespace train {

inline constexpr Duration kSurvivorGrace =
    seconds(1);  // TERM to KILL for the survivors of a failed group
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
  /// Somebody asked to stop; `again`: not for the first time.
  void stop(bool again, const std::string& reason);
  /// The run was told to stop before this group was found to go on.
  void stop_found();
  /// Let the ranks meet, hand over a checkpoint, and leave, for a group of another size. Take the
  /// group down where no rank reports. `at_checkpoint`: they meet where they hand one over anyway.
  void resize(AttemptCause::Resize resize, TimePoint deadline, bool at_checkpoint);
  /// A node is to be left within `grace`. `text` tells why.
  void drain(Duration grace, const std::string& text);
  void fail(AttemptCause::Failure failure);
  /// Take the group down for another to begin, without a failure.
  void give_up(const std::string& reason);
  /// Take the group down, unless it is already being taken down. Whether it ended well is found out
  /// when it has ended.
  void take_down(const std::string& reason);
  /// An earlier launcher asked the ranks to pause.
  void paused_before();
  /// An earlier launcher stopped the workers, or a supervisor that it left alone too long.
  void stopped_before();
  /// A rank has ended.
  void rank_ended() { cause_.rank_ended(); }
  /// Do not wait for storage that hangs.
  void escalate() { teardown_.escalate(); }

  // ---- how it ends
  /// Do what is due while ranks are being brought to rest.
  void advance_pausing();
  /// Give a node the newest order again, where there is one.
  void send_again(NodeId node);
  /// Return whether nothing is left to wait for: no worker, no shard, no commit.
  bool torn_down();
  /// Return what to tell of the end.
  AttemptEnded describe() const;
  std::optional<TimePoint> next_deadline() const;

 private:
  void begin_teardown(Duration grace, const std::string& reason);
  void stop_hosts(Duration grace, const std::string& reason);
  void pause(const std::string& reason, TimePoint deadline, bool at_checkpoint);
  void escalate_pause(TimePoint deadline);
  void send_pause();
  Pause pause_for(NodeId node) const;
  bool gives_up_shards();

  RunState state() const { return run_.progress.state(); }
  TimePoint now() const { return run_.progress.now(); }
  Duration stop_grace() const { return run_.spec.run_config.failure_config.stop_grace; }

  const RunContext run_;
  AttemptGroup& group_;
  AttemptCause cause_;
  std::optional<Quiesce> quiesce_;
  Teardown teardown_;
};

}  // namespace train
