// The path to the launcher: holds the newest link to traind, and sends again what a launcher that
// attaches may have missed. PROTOCOL.md, "What a launcher that attaches is told", has the order.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "daemon/supervisor/workers/answered_collectives.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/net/connection.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"

namespace train {

class Uplink {
 public:
  Uplink(Attempt attempt, std::map<Rank, WorkerSlot>& slots) : attempt_(attempt), slots_(slots) {}

  /// Take `link` as the newest link, and close the one before. The reader of a link owns it.
  void connect(Connection& link);
  /// Forget `link`. Return false if it was not the newest any more.
  bool disconnect(const Connection& link);
  bool connected() const { return link_ != nullptr; }
  Connection* link() { return link_; }

  void send(const Frame& frame);
  template <class Message>
  void send(const Message& message) {
    send(encode(message, attempt_));
  }
  /// Send now, and again to every launcher that attaches.
  void say(Frame frame);
  template <class Message>
  void say(const Message& message) {
    say(encode(message, attempt_));
  }
  /// Say that a program of the rank has connected. A launcher that attaches is told of the newest.
  void say_joined(const WorkerJoined& message);
  /// Send as say() does, but to each launcher only after all output: the frame implies that none of
  /// the output is missing.
  void say_last(Frame frame);
  /// Note that a part of some slot's output was sent, or that the launcher has it already.
  void output_moved();
  /// Send a launcher everything that it may have missed. It may be a new one, a new incarnation, or
  /// the old one over a new link; receivers know what they already have. `answered`: what only this
  /// launcher lacks.
  void say_everything_again(const AttemptSnapshot& snapshot,
                            const std::vector<AnsweredCollectives::SharedResult>& answered);

 private:
  bool output_is_sent() const;

  Attempt attempt_;
  std::map<Rank, WorkerSlot>& slots_;
  Connection* link_ = nullptr;
  std::vector<Frame> said_;
  std::map<std::int32_t, std::size_t> joined_;  // by rank, where its WorkerJoined is in said_
  std::optional<Frame> last_;
  bool last_waits_ = false;  // for the output before it
};

}  // namespace train
