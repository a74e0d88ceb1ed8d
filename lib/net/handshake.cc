#include "lib/net/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "lib/net/hmac.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"

namespace train {
namespace {

constexpr std::size_t kInstanceBytes = 16;

struct Side {
  Connection& connection;
  const Identity& self;
  const std::optional<TlsContext>& tls;
  HandshakeLimits limits;
  std::optional<Refused> refusal = {};  // what to tell the peer if this side refuses
  bool refused_by_peer = false;
  bool can_be_told = false;  // whether the peer speaks TLS is known, and its handshake is over

  // Return `here` as the error on this side, and let the peer be told `there`.
  Error refuse(Error here, std::string_view there, std::string_view hint = {}) {
    refusal = Refused{.code = std::string(to_string(here.code)),
                      .message = std::string(there),
                      .hint = std::string(hint)};
    return here;
  }
};

// Make a peer's text printable, since it may end up on a terminal.
std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

Errc errc_from(std::string_view name) {
  for (const Errc code :
       {Errc::Unauthenticated, Errc::Timeout, Errc::Fenced, Errc::Permission, Errc::Unavailable}) {
    if (to_string(code) == name) return code;
  }
  return Errc::Protocol;
}

template <class Message>
Task<Message> receive_message(Side& side) {
  CO_TRY(const Frame frame, co_await side.connection.receive());
  if (frame.type == MessageType::Refused) {
    side.refused_by_peer = true;
    CO_TRY(auto refused, decode<Refused>(frame));
    co_return Error{
        errc_from(refused.code),
        fmt::format("{} refuses: {}", side.connection.peer(), printable(refused.message)),
        printable(refused.hint)};
  }
  if (frame.type != Message::kType) {
    co_return Error{Errc::Protocol, fmt::format("{} sent {} instead of {}", side.connection.peer(),
                                                to_string(frame.type), to_string(Message::kType))};
  }
  co_return decode<Message>(frame);
}

Error wrong_version(Side& side, const Hello& hello, const std::string& listener_build,
                    std::string_view listener_versions) {
  const std::string text = fmt::format(
      "{} {} speaks protocol {} to {}, {} speaks {}", printable(hello.role), printable(hello.build),
      hello.protocol_min, hello.protocol_max, listener_build, listener_versions);
  constexpr std::string_view kHint = "install the same version of trainrun on both machines";
  return side.refuse(Error{Errc::Protocol, text, std::string(kHint)}, text, kHint);
}

Result<std::uint32_t> choose_protocol(Side& side, const Hello& hello) {
  const std::uint32_t version = std::min(hello.protocol_max, side.limits.protocol_max);
  if (version >= std::max(hello.protocol_min, side.limits.protocol_min)) return version;
  return wrong_version(side, hello, fmt::format("{} {}", side.self.role, side.self.build),
                       fmt::format("{} to {}", side.limits.protocol_min, side.limits.protocol_max));
}

// Check that the peer is not this process. Both sides of a PSK hold the same secret, so a peer that
// has it may still be this process, if somebody in between redirects the connection (RFC 9257,
// "selfie").
template <class HelloOrReply>
Result<Unit> check_is_another(Side& side, const HelloOrReply& peer) {
  const auto refuse = [&](Errc code, std::string_view what, std::string_view hint) {
    Error error{code, fmt::format("{} {}", side.connection.peer(), what), std::string(hint)};
    const std::string there = error.message;
    return side.refuse(std::move(error), there, hint);
  };
  if (peer.instance.size() != kInstanceBytes)
    return refuse(Errc::Protocol,
                  fmt::format("has an instance of {} bytes instead of {}", peer.instance.size(),
                              kInstanceBytes),
                  "");
  if (peer.instance == side.self.instance)
    return refuse(
        Errc::Unauthenticated, "is this process itself",
        "correct the address; if it is right, someone on the network redirects the connection");
  if (peer.role == side.self.role)
    return refuse(Errc::Unauthenticated,
                  fmt::format("says that it is a {}, like this side", printable(peer.role)),
                  "correct the address");
  return Unit{};
}

// Check whom the peer's certificate names; TLS has already checked who signed it.
Result<Unit> check_certificate(Side& side) {
  const auto& own = side.tls->name();
  if (!own) return Unit{};
  const auto theirs = side.connection.certificate_name();
  if (theirs && theirs->cluster == own->cluster && theirs->role != own->role) return Unit{};
  const CertificateRole wanted =
      own->role == CertificateRole::Node ? CertificateRole::Launcher : CertificateRole::Node;
  const std::string text =
      fmt::format("certificate names {}, but a {} of cluster '{}' is required",
                  theirs ? theirs->uri() : "no trainrun peer", to_string(wanted), own->cluster);
  return side.refuse(
      Error{Errc::Unauthenticated, fmt::format("{}: its {}", side.connection.peer(), text)},
      "your " + text);
}

// Check the node's name, since the administrator of one node must not speak for another.
Result<Unit> check_node_name(Side& side, const std::string& node_name) {
  const auto named = side.connection.certificate_name();
  if (!named || named->role != CertificateRole::Node || named->name == node_name) return Unit{};
  Error error{Errc::Unauthenticated,
              fmt::format("{} calls itself {}, but its certificate is for {}",
                          side.connection.peer(), printable(node_name), named->name),
              "start it with the --node-name of its certificate"};
  const std::string there = error.message;
  return side.refuse(std::move(error), there);
}

Task<Unit> start_tls(Side& side, ConnectionSide which) {
  CO_TRY_VOID(co_await side.connection.start_tls(*side.tls, which));
  side.can_be_told = true;
  co_return check_certificate(side);
}

template <class HelloOrReply>
PeerInfo info_of(const Side& side, const HelloOrReply& peer, std::uint32_t protocol) {
  return {.protocol = protocol,
          .build = peer.build,
          .role = peer.role,
          .host = peer.host,
          .pid = peer.pid,
          .node_name = peer.node_name,
          .instance = peer.instance,
          .certificate = side.connection.certificate_name()};
}

Task<PeerInfo> connect_steps(Side& side) {
  if (side.tls && !side.connection.is_unix())
    CO_TRY_VOID(co_await start_tls(side, ConnectionSide::Connector));
  side.can_be_told = true;
  const Hello hello{.protocol_min = side.limits.protocol_min,
                    .protocol_max = side.limits.protocol_max,
                    .build = side.self.build,
                    .role = side.self.role,
                    .host = side.self.host,
                    .node_name = side.self.node_name,
                    .pid = side.self.pid,
                    .instance = side.self.instance};
  side.connection.send(encode(hello));
  CO_TRY(const auto reply, co_await receive_message<HelloReply>(side));
  if (reply.protocol < hello.protocol_min || reply.protocol > hello.protocol_max) {
    co_return wrong_version(side, hello,
                            fmt::format("{} {}", printable(reply.role), printable(reply.build)),
                            std::to_string(reply.protocol));
  }
  CO_TRY_VOID(check_is_another(side, reply));
  CO_TRY_VOID(check_node_name(side, reply.node_name));
  side.connection.set_payload_limit(kFramePayloadBytesMax);
  co_return info_of(side, reply, reply.protocol);
}

// Start TLS if the peer offers it. Return whether the peer and this side agree on whether to use
// TLS. There is no fallback.
Task<bool> start_tls_if_offered(Side& side) {
  if (side.connection.is_unix()) co_return true;
  CO_TRY(const bool offered, co_await side.connection.peer_begins_tls());
  if (offered && side.tls) CO_TRY_VOID(co_await start_tls(side, ConnectionSide::Listener));
  if (offered && !side.tls) {
    // Take the peer's bytes, which are no frame. If they stayed unread, the kernel would reset the
    // connection before the peer has received the reason.
    (void)co_await side.connection.receive();
    side.can_be_told = true;
    co_return side.refuse(
        Error{Errc::Unauthenticated,
              fmt::format("{} requires TLS, but neither a token nor certificates are set",
                          side.connection.peer()),
              "pass --token-file or --tls"},
        "the peer has neither a token nor certificates, but TLS is required here",
        "start it with --token-file or --tls");
  }
  co_return offered == side.tls.has_value();
}

Task<PeerInfo> accept_steps(Side& side) {
  CO_TRY(const bool agreed, co_await start_tls_if_offered(side));
  side.can_be_told = true;
  CO_TRY(const auto hello, co_await receive_message<Hello>(side));
  CO_TRY(const std::uint32_t protocol, choose_protocol(side, hello));
  if (!agreed) {
    co_return side.refuse(
        Error{Errc::Unauthenticated, fmt::format("{} presents no {}, but one is required here",
                                                 side.connection.peer(), side.tls->proof())},
        fmt::format("peer asks for a {}, none is set", side.tls->proof()),
        fmt::format("pass {}", side.tls->flag()));
  }
  CO_TRY_VOID(check_is_another(side, hello));
  side.connection.send(encode(HelloReply{.protocol = protocol,
                                         .build = side.self.build,
                                         .role = side.self.role,
                                         .host = side.self.host,
                                         .node_name = side.self.node_name,
                                         .pid = side.self.pid,
                                         .instance = side.self.instance}));
  side.connection.set_payload_limit(kFramePayloadBytesMax);
  co_return info_of(side, hello, protocol);
}

using Steps = Task<PeerInfo> (*)(Side&);

Task<PeerInfo> run_handshake(Connection& connection, const Identity& self,
                             const std::optional<TlsContext>& tls, HandshakeLimits limits,
                             Steps steps) {
  constexpr auto kFarewellTime = milliseconds(500);
  Side side{.connection = connection, .self = self, .tls = tls, .limits = limits};
  connection.set_payload_limit(kHelloPayloadBytesMax);
  auto result = co_await within(limits.time, steps(side));
  if (result.has_value()) co_return result;
  Error error = std::move(result).error();
  if (error.code == Errc::Timeout && !side.refused_by_peer)
    error.message = fmt::format("{}: handshake not over within {}", connection.peer(),
                                format_duration(limits.time));
  // Tell the peer, unless it is gone or has refused us itself.
  const bool peer_listens = side.can_be_told && !side.refused_by_peer &&
                            error.code != Errc::Unavailable && error.code != Errc::Cancelled;
  if (peer_listens) {
    if (!side.refusal)
      side.refusal = Refused{
          .code = std::string(to_string(error.code)), .message = error.message, .hint = error.hint};
    connection.send(encode(*side.refusal));
    auto told = co_await within(kFarewellTime, connection.flush());
    if (told.has_error() && told.error().code == Errc::Cancelled) error = std::move(told).error();
  }
  connection.close();
  co_return error;
}

}  // namespace

const std::string& process_instance() {
  static const std::string instance = random_bytes(kInstanceBytes);
  return instance;
}

Task<PeerInfo> connect_handshake(Connection& connection, const Identity& self,
                                 const std::optional<TlsContext>& tls, HandshakeLimits limits) {
  return run_handshake(connection, self, tls, limits, connect_steps);
}

Task<PeerInfo> accept_handshake(Connection& connection, const Identity& self,
                                const std::optional<TlsContext>& tls, HandshakeLimits limits) {
  return run_handshake(connection, self, tls, limits, accept_steps);
}

}  // namespace train
