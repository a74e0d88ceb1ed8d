// The worker's side of stopping in good order (lib/wire/PROTOCOL.md): what a report() that has
// queued report n does next. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace train::sdk {

class StopGate {
 public:
  /// The three steps of PauseWorkers. A step that comes late, or again, never goes back.
  void pause();
  void advance(std::uint64_t target);
  void finish(std::string reason);

  bool stopping() const { return step_ != Step::None; }
  bool finished() const { return step_ == Step::Finish; }
  const std::string& reason() const { return reason_; }

  enum class Next {
    GoOn,        // leave report()
    Wait,        // tell where we are, and wait for the next step
    Checkpoint,  // this is the report where all ranks stop: make the checkpoint (once), then wait
    Stop,        // throw Stopped
  };
  Next after_report(std::uint64_t last_ordinal) const;

 private:
  enum class Step { None, Pause, Advance, Finish };
  Step step_ = Step::None;
  std::uint64_t target_ = 0;
  std::string reason_;
};

}  // namespace train::sdk
