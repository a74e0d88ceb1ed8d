// Connections between the simulated programs: ordered, delayed, and lossy only as a whole. A cut
// loses what is in flight in both directions, and each end notices in its own time; a closed end is
// noticed after all that was sent before.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <variant>

#include "lib/base/ids.h"
#include "lib/wire/messages.h"
#include "tests/sim/timeline.h"

namespace train::sim {

using Payload = std::variant<AttachRun, NodeOffer, PrepareAttempt, AttemptLost, DetachRun, Refused,
                             LauncherState, SupervisorHello, Prepared, StartWorkers, WorkersStarted,
                             StartFailed, WorkerJoined, WorkerExited, GroupGone, StopWorkers,
                             PauseWorkers, WorkerPaused, ReportBatch, AckReports, PartWritten,
                             CheckpointOutcome, CollectiveJoin, CollectiveResult, ReleaseAttempt,
                             AttemptSnapshot, CheckpointStaged, WorkerGoodbye>;

/// What a frame of lib/wire holds, without the bytes.
struct SimFrame {
  Attempt attempt;
  Payload payload;
  MessageType type() const;
};

struct LinkEnd {
  std::function<void(const SimFrame&)> received;
  std::function<void()> closed;  // by the other end, or cut; never after one's own close()
};

/// One connection. The side that called is 0, the one that was called is 1.
class SimLink : public std::enable_shared_from_this<SimLink> {
 public:
  SimLink(Timeline& timeline, Duration delay_min, Duration delay_max)
      : timeline_(timeline), delay_min_(delay_min), delay_max_(delay_max) {}

  void set_end(int side, LinkEnd end) { ends_[side] = std::move(end); }
  void send(int side, SimFrame frame);
  /// This side is done: the other one hears of it after everything that was sent before.
  void close(int side);
  /// The network fails: frames in flight are lost, each side notices after its own delay.
  void cut(Duration noticed_by_0, Duration noticed_by_1);
  bool usable() const { return !cut_ && !closed_[0] && !closed_[1]; }

 private:
  void deliver_in_order(int to, std::function<void()> what);
  void notify_closed(int side);

  Timeline& timeline_;
  Duration delay_min_, delay_max_;
  std::array<LinkEnd, 2> ends_;
  std::array<TimePoint, 2> last_arrival_{};
  std::array<bool, 2> closed_{};  // by this side itself, or known to it
  bool cut_ = false;
};
using LinkPtr = std::shared_ptr<SimLink>;  // shared by both ends and by what is in flight

}  // namespace train::sim
