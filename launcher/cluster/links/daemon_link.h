// One connection to one traind. It connects, proves who it is, attaches the run, sends heartbeats,
// and reconnects when the link breaks. NodeLiveness decides when to do so, and when the node counts
// as lost.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/cluster/links/dialler.h"
#include "launcher/core/node_liveness.h"
#include "lib/net/connection.h"
#include "lib/net/handshake.h"
#include "lib/net/notifier.h"
#include "lib/net/tls_files.h"
#include "lib/wire/daemon_messages.h"

namespace train {

constexpr Duration kKeepAliveEvery = milliseconds(100);

/// The options that are the same for all links of a run.
struct DaemonLinkOptions {
  Identity self;
  AttachRun attach;       // without the proof, which differs for each connection
  std::string owner_key;  // for making the proof
  LivenessLimits limits = {};
  bool has_workers = false;  // of an earlier launcher: its silence counts from the start
};

class DaemonLink {
 public:
  struct Handlers {
    /// `attached`: over a new connection.
    std::function<void(const NodeOffer&, const std::string& reached_at, bool attached)> offered;
    std::function<void(const Frame&)> received;  // of an attempt
    /// Called for each new problem with the connection; for the screen.
    std::function<void(const std::string& problem)> away;
    /// The node's workers count as lost. The link keeps trying to connect.
    std::function<void(const std::string& reason)> down;
    /// It rejects us. Return whether trying again is useless.
    std::function<bool(const Error&)> refused;
    /// A traind has proved that it belongs to the cluster. Return the address under which another
    /// link has it already; "": none has.
    std::function<std::string(const std::string& instance)> reached;
    std::function<void()> vanished;  // it is not listed, and dead; it is dialled once it is listed
  };

  /// `options` and `tls` must outlive the link: thousands of links may share them.
  DaemonLink(asio::any_io_executor executor, std::unique_ptr<Dialler> dialler,
             const DaemonLinkOptions& options, const TlsSource& tls, Handlers handlers);

  /// Run until cancelled or refused.
  asio::awaitable<void> run();
  /// Send a heartbeat if one is due, and close a connection over which nothing has arrived for too
  /// long. Call this every kKeepAliveEvery. One timer serves all links: with a timer for each,
  /// 10,000 links took a fifth of a core.
  void keep_alive(TimePoint now);
  /// Say whether the job still names the node. One that it does not name is used until it is dead.
  void set_listed(bool listed);
  /// Send a frame. It is dropped unless the node has answered over its newest connection: whatever
  /// must arrive is sent again after `offered`, in the right order.
  void send(const Frame& frame);
  /// Tell the daemon that the run is over, and close.
  asio::awaitable<void> detach(DetachRun how);
  const std::string& endpoint_text() const { return endpoint_text_; }
  std::size_t queued_bytes() const { return connection_ ? connection_->queued_bytes() : 0; }

 private:
  Task<Dialled> open();
  asio::awaitable<Error> converse(std::shared_ptr<Connection> connection, std::string reached_at);
  Duration disconnected(const Error& why);
  void reject(const Error& error);
  Task<Unit> wait_while_vanished();

  asio::any_io_executor executor_;
  std::unique_ptr<Dialler> dialler_;
  const DaemonLinkOptions& options_;
  const TlsSource& tls_;
  Handlers handlers_;
  std::string endpoint_text_;
  NodeLiveness liveness_;
  std::shared_ptr<Connection> connection_;  // shared with the coroutines that use it
  bool attached_ = false;                   // the node has answered over the newest connection
  bool offered_ = false;                    // it has offered something over it
  std::uint64_t beats_ = 0;
  bool detaching_ = false;
  bool refused_ = false;
  bool turned_away_ = false;  // at the last try, and it may be tried again
  bool listed_ = true;
  Notifier listed_again_;
  std::string problem_;
};

}  // namespace train
