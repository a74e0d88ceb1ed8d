// The way to the launcher: the newest link to traind, and what is said again to a launcher that
// attaches. PROTOCOL.md, "What a launcher that attaches is told", has the order.
#pragma once

#include <map>
#include <vector>

#include "daemon/supervisor/worker_seat.h"
#include "lib/net/connection.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/wire/codec.h"

namespace train {

class Uplink {
 public:
  /// All of them must outlive the flows in `scope`. `changed` is told whenever a seat's output has
  /// moved.
  Uplink(Attempt attempt, std::map<Rank, WorkerSeat>& seats, Scope& scope, Notifier& changed)
      : attempt_(attempt), seats_(seats), scope_(scope), changed_(changed) {}

  /// The newest link; the one before is closed. Owned by who reads it.
  void connect(Connection& link);
  /// False where `link` was not the newest any more.
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
  /// A launcher (or its new incarnation, or the old one over a new link) is there: tell all that it
  /// may have missed. Receivers know what they have already.
  void say_everything_again(const AttemptSnapshot& snapshot);

 private:
  bool output_is_sent() const;
  asio::awaitable<void> say_gone_again(Frame gone);

  Attempt attempt_;
  std::map<Rank, WorkerSeat>& seats_;
  Scope& scope_;
  Notifier& changed_;
  Connection* link_ = nullptr;
  std::vector<Frame> said_;
  bool gone_waits_ = false;  // a say_gone_again() is under way
};

}  // namespace train
