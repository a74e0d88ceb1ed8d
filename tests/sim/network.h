// Connections between the simulated programs, and the ways they go over. A connection is ordered
// and loses nothing while it lives, as TCP: a packet that is lost comes later. A way that is
// blocked holds what was sent until it is open again; a connection that is reset loses what is in
// flight; one that the network has forgotten swallows everything, and nobody is told.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <vector>

#include "lib/base/ids.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"
#include "tests/sim/timeline.h"

namespace train::sim {

/// What a frame of lib/wire holds, without the bytes.
struct SimFrame {
  Attempt attempt;
  MessageType type{};
  std::shared_ptr<const void> message;  // shared: a frame that is passed on is not copied
  template <class T>
  const T* get() const {
    return type == T::kType ? static_cast<const T*>(message.get()) : nullptr;
  }
};
template <class T>
SimFrame frame_of(Attempt attempt, T message) {
  return {attempt, T::kType, std::make_shared<const T>(std::move(message))};
}

class SimLink;

/// The way between two hosts, or within one. Direction 0 is towards side 0, 1 towards side 1.
struct SimPath {
  Duration delay_min = std::chrono::microseconds(50), delay_max = milliseconds(20);
  double loss = 0;  // of packets: sent again after kRetransmit, and again
  std::array<bool, 2> blocked{};
  std::array<TimePoint, 2> clogged_until{};
  std::vector<std::shared_ptr<SimLink>> holding;  // shared with both ends: held frames outlive them

  bool open() const { return !blocked[0] && !blocked[1]; }
  Duration sample(Timeline& timeline, int to) const;
  void block(int to) { blocked[to] = true; }
  void unblock(Timeline& timeline, int to);
};

struct LinkEnd {
  std::function<void(const SimFrame&)> received;
  std::function<void()> closed;  // by the other end, or cut; never after one's own close()
};

/// One connection. The side that called is 0, the one that was called is 1.
class SimLink : public std::enable_shared_from_this<SimLink> {
 public:
  SimLink(Timeline& timeline, SimPath& path) : timeline_(timeline), path_(path) {}

  void set_end(int side, LinkEnd end) { ends_[side] = std::move(end); }
  void send(int side, SimFrame frame);
  /// This side is done: the other one hears of it after everything that was sent before.
  void close(int side);
  /// A reset: frames in flight are lost, each side notices after its own delay.
  void cut(Duration noticed_by_0, Duration noticed_by_1);
  /// The network has forgotten it: everything is swallowed, nobody is told.
  void forget() { severed_ = true; }
  /// The host of this side is gone without a word; what still comes there is answered by a reset.
  void vanish(int side) { vanished_[side] = true; }
  bool usable() const { return !severed_ && !closed_[0] && !closed_[1]; }

 private:
  friend struct SimPath;
  void schedule(int to, SimFrame frame);
  void arrive(int to, const SimFrame& frame);
  void take(int to, const SimFrame& frame);
  void flush(int to);
  void notify_closed(int side);

  Timeline& timeline_;
  SimPath& path_;
  std::array<LinkEnd, 2> ends_;
  std::array<TimePoint, 2> last_arrival_{};
  std::array<std::vector<SimFrame>, 2> held_;  // by a blocked way, in order
  std::array<bool, 2> closed_{};               // by this side itself, or known to it
  std::array<bool, 2> vanished_{};
  bool severed_ = false;
};
using LinkPtr = std::shared_ptr<SimLink>;  // shared by both ends and by what is in flight

}  // namespace train::sim
