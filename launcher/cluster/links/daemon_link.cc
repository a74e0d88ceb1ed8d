#include "launcher/cluster/links/daemon_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/net/peer_user.h"
#include "lib/net/run_owner.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"

namespace train {
namespace {

constexpr Duration kTurnedAwayPause = seconds(30);

/// Return the message without the endpoint, which the reader sees anyway.
std::string without_prefix(const std::string& message, const std::string& endpoint) {
  return message.starts_with(endpoint + ": ") ? message.substr(endpoint.size() + 2) : message;
}

}  // namespace

DaemonLink::DaemonLink(asio::any_io_executor executor, std::unique_ptr<Dialler> dialler,
                       const DaemonLinkOptions& options, const TlsSource& tls, Handlers handlers)
    : executor_(executor),
      dialler_(std::move(dialler)),
      options_(options),
      tls_(tls),
      handlers_(std::move(handlers)),
      endpoint_text_(dialler_->text()),
      liveness_(options_.limits, options_.has_workers, std::chrono::steady_clock::now()),
      listed_again_(executor_) {}

asio::awaitable<void> DaemonLink::run() {
  while (!detaching_) {
    auto waiting = wait_while_vanished();
    const auto listed = co_await std::move(waiting);
    if (!listed || detaching_) co_return;
    liveness_.dialling(std::chrono::steady_clock::now());
    auto opened = co_await open();
    Error problem;
    if (opened)
      problem = dialler_->explain(
          co_await converse(std::move(opened->connection), std::move(opened->reached_at)));
    else
      problem = opened.error();
    connection_.reset();
    if (detaching_ || refused_ || problem.code == Errc::Cancelled) co_return;
    Duration redial_in = std::max(disconnected(problem), dialler_->pause());
    if (std::exchange(turned_away_, false)) redial_in = std::max(redial_in, kTurnedAwayPause);
    const auto woken = co_await pause_for(redial_in);
    if (!woken) co_return;
  }
}

void DaemonLink::set_listed(bool listed) {
  listed_ = listed;
  listed_again_.notify();
}

/// A node that the job does not name any more is given up once it is dead, or if it never answered.
Task<Unit> DaemonLink::wait_while_vanished() {
  if (listed_ || !liveness_.lost()) co_return Unit{};
  handlers_.vanished();
  while (!listed_ && !detaching_) {
    auto waiting = listed_again_.wait_until(TimePoint::max());
    CO_TRY([[maybe_unused]] const bool woken, co_await std::move(waiting));
  }
  co_return Unit{};
}

void DaemonLink::reject(const Error& error) {
  refused_ = handlers_.refused(error);
  turned_away_ = !refused_;
}

Task<Dialled> DaemonLink::open() {
  auto dialling = dialler_->dial(executor_, liveness_.connect_limit());
  auto dialled = co_await std::move(dialling);
  if (dialled.has_error()) {
    if (!liveness_.known() && dialler_->failed_for_good()) reject(dialled.error());
    co_return dialled;
  }
  Connection& connection = *dialled->connection;
  HandshakeLimits limits;
  if (const auto time = liveness_.handshake_limit()) limits.time = *time;
  // Send nothing before we know who receives it.
  Result<PeerInfo> peer = PeerInfo{};
  if (const auto user = check_peer_user(connection); user.has_error())
    peer = user.error();
  else
    peer = co_await connect_handshake(connection, options_.self, tls_(), limits);
  if (peer.has_error()) {
    const Errc code = peer.error().code;
    // If we have been attached, or if our workers are there, a refusal is no reason to give them
    // up: the daemon counts as away, and the other workers continue training.
    if (!liveness_.known() &&
        (code == Errc::Unauthenticated || code == Errc::Protocol || code == Errc::Permission)) {
      Error error(peer.error());
      if (!error.message.starts_with(endpoint_text_))
        error = std::move(error).with_context(endpoint_text_);
      reject(error);
    }
    co_return peer.error();
  }
  if (const std::string other = handlers_.reached(peer->instance); !other.empty()) {
    Error error{Errc::InvalidArgument,
                fmt::format("{} is the same traind as {}", endpoint_text_, other),
                "name each node once"};
    reject(error);
    co_return error;
  }
  co_return dialled;
}

// Serve one connection until it ends. Return why it ended.
asio::awaitable<Error> DaemonLink::converse(std::shared_ptr<Connection> connection,
                                            std::string reached_at) {
  connection_ = connection;
  attached_ = offered_ = false;
  AttachRun attach = options_.attach;
  OwnerProof proof =
      prove_owner(options_.owner_key, attach.run_id, attach.generation, connection->binding());
  attach.owner_public_key = std::move(proof.public_key);
  attach.owner_signature = std::move(proof.signature);
  connection->send(encode(attach));
  liveness_.connected(std::chrono::steady_clock::now());
  Error ended;
  for (;;) {
    auto frame = co_await connection->receive();
    if (!frame) {
      ended = liveness_.fell_silent() ? detail::timeout_error(options_.limits.suspect_after)
                                      : frame.error();
      break;
    }
    liveness_.heard(std::chrono::steady_clock::now());
    attached_ |= frame->type != MessageType::HeartbeatAck && frame->type != MessageType::NodeStatus;
    if (is_relayed(frame->type) || frame->type == MessageType::AttemptLost ||
        frame->type == MessageType::NodeDraining || frame->type == MessageType::NodeStatus ||
        frame->type == MessageType::FailoverAnswer) {
      handlers_.received(*frame);
    } else if (frame->type == MessageType::NodeOffer) {
      if (auto offer = decode<NodeOffer>(*frame)) {
        liveness_.attached();
        problem_.clear();
        handlers_.offered(*offer, reached_at, !std::exchange(offered_, true));
      }
    } else if (frame->type == MessageType::Refused) {
      if (auto refusal = decode<Refused>(*frame)) {
        reject(Error{refusal->code == "fenced" ? Errc::Fenced : Errc::Permission,
                     endpoint_text_ + ": " + refusal->message, refusal->hint});
      }
      ended = Error{turned_away_ ? Errc::Permission : Errc::Cancelled, "refused"};
      break;
    }
  }
  connection->close();
  co_return ended;
}

void DaemonLink::keep_alive(TimePoint now) {
  if (!connection_) return;
  switch (liveness_.tick(now)) {
    case NodeLiveness::Next::Wait:
      return;
    case NodeLiveness::Next::Beat:
      return connection_->send(encode(Heartbeat{++beats_}));
    case NodeLiveness::Next::Close:
      return connection_->close();  // converse() then continues
  }
}

/// Report what is wrong with the node. Return how long to wait before the next try.
Duration DaemonLink::disconnected(const Error& why) {
  const bool silent = why.code == Errc::Timeout;
  const auto verdict =
      liveness_.disconnected(silent ? NodeLiveness::Cause::Silent : NodeLiveness::Cause::Away,
                             std::chrono::steady_clock::now());
  const std::string problem = silent ? "no answer" : without_prefix(why.message, endpoint_text_);
  if (problem != problem_) handlers_.away(problem_ = problem);
  if (verdict.lost) {
    handlers_.down(
        silent ? fmt::format("no heartbeat for {}", format_duration(verdict.silent))
               : fmt::format("its traind was away for {}", format_duration(verdict.silent)));
  }
  return verdict.dial_in;
}

void DaemonLink::send(const Frame& frame) {
  if (connection_ && attached_) connection_->send(frame);
}

asio::awaitable<void> DaemonLink::detach(DetachRun how) {
  detaching_ = true;
  if (!connection_) {
    dialler_->give_up();
    co_return;
  }
  const auto connection = connection_;
  connection->send(encode(how));
  (void)co_await within(seconds(1), connection->flush());
}

}  // namespace train
