// Connections between the simulated programs, and the paths that they take. Like TCP, a live
// connection keeps order and loses nothing: a lost packet only comes later. A blocked path holds
// frames until it is open again. A reset connection loses the frames in flight. A connection that
// the network has forgotten silently drops everything.
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

/// The content of a lib/wire frame, without the bytes.
struct SimFrame {
  Attempt attempt;
  MessageType type{};
  std::shared_ptr<const void> message;  // shared, so that passing a frame on copies nothing
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

/// The path between two hosts, or within one. Direction 0 is towards side 0, 1 towards side 1.
struct SimPath {
  Duration delay_min = std::chrono::microseconds(50), delay_max = milliseconds(20);
  double loss = 0;  // share of packets lost; each is resent after kRetransmit
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
  std::function<void()> closed;  // by the other end, or cut; not for one's own close()
};

/// One connection. Side 0 called side 1.
class SimLink : public std::enable_shared_from_this<SimLink> {
 public:
  SimLink(Timeline& timeline, SimPath& path) : timeline_(timeline), path_(path) {}

  void set_end(int side, LinkEnd end) { ends_[side] = std::move(end); }
  void send(int side, SimFrame frame);
  /// Close this side. The other side hears of it after everything that was sent before.
  void close(int side);
  /// Reset the connection: frames in flight are lost, and each side notices after its own delay.
  void cut(Duration noticed_by_0, Duration noticed_by_1);
  /// Make the network forget the connection: it silently drops everything.
  void forget() { severed_ = true; }
  /// The host of this side vanishes silently; its successor answers further frames with a reset.
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
  std::array<std::vector<SimFrame>, 2> held_;  // by a blocked path, in order
  std::array<bool, 2> closed_{};               // closed by this side, or known to it as closed
  std::array<bool, 2> vanished_{};
  bool severed_ = false;
};
using LinkPtr = std::shared_ptr<SimLink>;  // shared by both ends and the frames in flight

}  // namespace train::sim
