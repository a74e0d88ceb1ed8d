// The worker's side of stopping gracefully (lib/wire/PROTOCOL.md): decides what a report() that has
// queued report n does next. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/model/pause_step.h"

namespace train::sdk {

class StopGate {
 public:
  /// Handle the steps of PauseWorkers. A step that is late or repeated never leads back; but
  /// a stop replaces a meeting at a checkpoint. Return true in that case: everything then begins
  /// anew.
  bool pause(bool at_checkpoint = false);
  bool advance(std::uint64_t target, bool at_checkpoint = false);
  bool checkpoint(std::uint64_t target, bool at_checkpoint = false);
  void finish(std::string reason);

  /// Return whether after_report() may return anything but GoOn.
  bool closed() const { return step_.has_value(); }
  /// Return whether user code should stop: false while ranks only meet at a checkpoint.
  bool stopping() const { return step_ && !at_checkpoint_; }
  bool finished() const { return step_ == PauseStep::Finish; }
  const std::string& reason() const { return reason_; }
  std::uint64_t target() const { return target_; }  // of the newest Advance or Checkpoint

  enum class Next {
    GoOn,        // leave report()
    Wait,        // report our position, and wait for the next step
    Arrived,     // the same, and this is the report where all ranks stop
    Checkpoint,  // all ranks are here: make the checkpoint (once), then wait
    Stop,        // throw Stopped
  };
  /// Return what report() does next. `has_checkpoint`: the last report carries a checkpoint, or
  /// on_stop's function can make one.
  Next after_report(std::uint64_t last_report_seq, bool has_checkpoint) const;

 private:
  bool take_over(bool at_checkpoint);
  bool move_to(PauseStep step, std::uint64_t target, bool at_checkpoint);

  std::optional<PauseStep> step_;  // the newest; none: the group is neither stopping nor pausing
  bool at_checkpoint_ = false;
  std::uint64_t target_ = 0;
  std::string reason_;
};

}  // namespace train::sdk
