#include "launcher/cluster/daemon_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/net/peer_user.h"
#include "lib/net/run_owner.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr Duration kConnectLimit = seconds(5);
constexpr Duration kRedialEvery =
    seconds(1);  // at most: several times between suspicion and verdict
constexpr Duration kFirstRedial = milliseconds(5);  // a private traind is about to listen

/// What a message says of an endpoint that the reader is told anyway.
std::string without_prefix(const std::string& message, const std::string& endpoint) {
  return message.starts_with(endpoint + ": ") ? message.substr(endpoint.size() + 2) : message;
}

}  // namespace

DaemonLink::DaemonLink(asio::any_io_executor executor, Endpoint endpoint,
                       const DaemonLinkOptions& options, const TlsSource& tls, Handlers handlers)
    : executor_(executor),
      endpoint_(std::move(endpoint)),
      options_(options),
      tls_(tls),
      handlers_(std::move(handlers)),
      endpoint_text_(endpoint_.text()),
      redial_every_(std::clamp<Duration>((options_.dead_after - options_.suspect_after) / 4,
                                         milliseconds(100), kRedialEvery)),
      last_heard_(std::chrono::steady_clock::now()),
      told_down_(!options_.has_workers) {}

asio::awaitable<void> DaemonLink::run() {
  Duration redial = kFirstRedial;
  while (!detaching_) {
    const TimePoint began = std::chrono::steady_clock::now();
    auto opened = co_await open();
    std::optional<Error> problem;
    if (opened) {
      const auto ended = co_await converse(std::move(*opened));
      if (ended.has_error()) problem = ended.error();
    } else {
      problem = opened.error();
    }
    connection_.reset();
    if (detaching_ || refused_) co_return;
    if (problem && problem->code == Errc::Cancelled) co_return;
    if (problem) check_limits(*problem);
    if (std::chrono::steady_clock::now() - began > redial_every_) redial = kFirstRedial;
    const auto woken = co_await pause_for(redial);
    if (!woken) co_return;
    redial = std::min<Duration>(redial * 2, redial_every_);
  }
}

Task<std::unique_ptr<Connection>> DaemonLink::open() {
  // A node that was silent is dialled with little patience: a stalled SYN would wait past the
  // verdict.
  const bool known = ever_attached_ || options_.has_workers;
  const Duration limit = known ? redial_every_ : kConnectLimit;
  CO_TRY(auto connection, co_await Connection::connect(executor_, endpoint_, limit));
  HandshakeLimits limits;
  if (known) limits.time = 2 * redial_every_;
  // Nothing is said before it is known who hears it.
  Result<PeerInfo> peer = PeerInfo{};
  if (const auto user = check_peer_user(*connection); user.has_error())
    peer = user.error();
  else
    peer = co_await connect_handshake(*connection, options_.self, tls_(), limits);
  if (peer.has_error()) {
    const Errc code = peer.error().code;
    // Later, or where our workers are, whoever will not have us there is no reason to give them up:
    // the daemon is away, and the others train on.
    if (!known &&
        (code == Errc::Unauthenticated || code == Errc::Protocol || code == Errc::Permission)) {
      refused_ = true;
      Error error(peer.error());
      if (!error.message.starts_with(endpoint_text_))
        error = std::move(error).with_context(endpoint_text_);
      handlers_.refused(error);
    }
    co_return peer.error();
  }
  co_return connection;
}

// The life of one connection.
Task<Unit> DaemonLink::converse(std::shared_ptr<Connection> connection) {
  connection_ = connection;
  AttachRun attach = options_.attach;
  OwnerProof proof =
      prove_owner(options_.owner_key, attach.run_id, attach.epoch, connection->binding());
  attach.owner_public_key = std::move(proof.public_key);
  attach.owner_signature = std::move(proof.signature);
  connection->send(encode(attach));
  frame_at_ = beat_at_ = std::chrono::steady_clock::now();
  silent_ = false;
  Result<Unit> ended = Unit{};
  for (;;) {
    auto frame = co_await connection->receive();
    if (!frame) {
      ended = silent_ ? detail::timeout_error(options_.suspect_after) : frame.error();
      break;
    }
    last_heard_ = frame_at_ = std::chrono::steady_clock::now();
    if (is_relayed(frame->type) || frame->type == MessageType::AttemptLost ||
        frame->type == MessageType::NodeDraining) {
      handlers_.received(*frame);
    } else if (frame->type == MessageType::NodeOffer) {
      if (auto offer = decode<NodeOffer>(*frame)) {
        ever_attached_ = true;
        told_down_ = false;
        problem_.clear();
        const auto reached = parse_endpoint(connection->peer());
        handlers_.offered(*offer,
                          reached && reached->kind == Endpoint::Tcp ? reached->host_or_path : "");
      }
    } else if (frame->type == MessageType::Refused) {
      if (auto refusal = decode<Refused>(*frame)) {
        refused_ = true;
        handlers_.refused(Error{refusal->code == "fenced" ? Errc::Fenced : Errc::Permission,
                                endpoint_text_ + ": " + refusal->message, refusal->hint});
      }
      ended = Error{Errc::Cancelled, "refused"};
      break;
    }
  }
  connection->close();
  co_return ended;
}

void DaemonLink::keep_alive(TimePoint now) {
  if (!connection_) return;
  if (now - frame_at_ >= options_.suspect_after) {
    silent_ = true;
    return connection_->close();  // serve() goes on from there
  }
  if (now < beat_at_) return;
  connection_->send(encode(Heartbeat{++beats_}));
  beat_at_ = now + milliseconds(options_.attach.heartbeat_ms);
}

void DaemonLink::check_limits(const Error& why) {
  const TimePoint now = std::chrono::steady_clock::now();
  const bool away = why.code != Errc::Timeout;
  if (away) away_at_ = now;  // its machine answered
  const Duration silent = now - (away ? last_heard_ : std::max(last_heard_, away_at_));
  const Duration limit = away ? options_.away_limit : options_.dead_after;
  const std::string problem = away ? without_prefix(why.message, endpoint_text_) : "no answer";
  if (problem != problem_) handlers_.away(problem_ = problem);
  if (!told_down_ && silent >= limit) {
    told_down_ = true;
    handlers_.down(away ? fmt::format("its traind was away for {}", format_duration(silent))
                        : fmt::format("no heartbeat for {}", format_duration(silent)));
  }
}

void DaemonLink::send(const Frame& frame) {
  if (connection_) connection_->send(frame);
}

asio::awaitable<void> DaemonLink::detach(bool keep_data) {
  detaching_ = true;
  if (!connection_) co_return;
  const auto connection = connection_;
  connection->send(encode(DetachRun{keep_data}));
  (void)co_await within(seconds(1), connection->flush());
}

}  // namespace train
