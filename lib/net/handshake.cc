#include "lib/net/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

#include "lib/net/hmac.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr std::size_t kNonceBytes = 32;
constexpr std::string_view kListenerProof = "trainrun 1 proof of the listener";
constexpr std::string_view kConnectorProof = "trainrun 1 proof of the connector";
constexpr std::string_view kSessionKey = "trainrun 1 session key";
constexpr std::string_view kTokenHint = "pass --token-file";

struct Side {
  Connection& connection;
  const Identity& self;
  const std::optional<Token>& token;
  HandshakeLimits limits;
  std::optional<Refused> refusal = {};  // what the peer is told when this side says no
  bool refused_by_peer = false;
  std::string hello_bytes = {},
              reply_bytes =
                  {};  // as they travelled: proofs also cover fields that only one side knows

  // End with `here` on this side, and `there` in the peer's ears.
  Error refuse(Error here, std::string_view there, std::string_view hint = {}) {
    refusal = Refused{.code = std::string(to_string(here.code)),
                      .message = std::string(there),
                      .hint = std::string(hint)};
    return here;
  }
};

// A peer's text may end up on a terminal.
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
    co_return Error{Errc::Protocol,
                    fmt::format("{} sends {} where {} is due", side.connection.peer(),
                                to_string(frame.type), to_string(Message::kType))};
  }
  if constexpr (std::is_same_v<Message, Hello>) side.hello_bytes = frame.payload;
  if constexpr (std::is_same_v<Message, HelloReply>) side.reply_bytes = frame.payload;
  co_return decode<Message>(frame);
}

// Each part with its length in front, so that no two lists of parts give the same bytes.
std::string join_parts(std::initializer_list<std::string_view> parts) {
  std::string out;
  for (const std::string_view part : parts) {
    for (int i = 0; i < 4; ++i) out += static_cast<char>(part.size() >> (8 * i));
    out.append(part);
  }
  return out;
}

// All of the hello, and of the answer all that the peer goes by; its own bytes hold the proof, so
// they come in with the next MAC.
std::string signed_by_listener(const Side& side, const HelloReply& reply) {
  return join_parts({kListenerProof, side.hello_bytes, std::to_string(reply.protocol), reply.build,
                     reply.role, reply.host, reply.node_name, std::to_string(reply.pid), reply.auth,
                     reply.nonce});
}
std::string signed_by_connector(std::string_view label, const Side& side) {
  return join_parts({label, side.hello_bytes, side.reply_bytes});
}

std::string mac_of(const Token& token, std::string_view text) {
  const auto mac = Hmac(token.bytes())(text);
  return {mac.data(), mac.size()};
}

void start_session(Side& side, ConnectionSide which) {
  if (side.token) {
    auto key = Hmac(side.token->bytes())(signed_by_connector(kSessionKey, side));
    side.connection.set_session_key({key.data(), key.size()}, which);
    wipe(key.data(), key.size());
  }
  side.connection.set_payload_limit(kFramePayloadBytesMax);
}

Error token_mismatch(Side& side) {
  return side.refuse(
      Error{Errc::Unauthenticated, fmt::format("{}: token does not match", side.connection.peer()),
            "both sides need the same token file"},
      "token does not match", "both sides need the same token file");
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

Result<Unit> check_auth_of_hello(Side& side, const Hello& hello) {
  const bool peer_has_token = hello.auth == "token";
  if (side.token && !peer_has_token) {
    return side.refuse(
        Error{Errc::Unauthenticated,
              fmt::format("{} shows no token, and one is asked for here", side.connection.peer())},
        "peer asks for a token, none is set", kTokenHint);
  }
  if (!side.token && peer_has_token) {
    return side.refuse(
        Error{Errc::Unauthenticated,
              fmt::format("{} asks for a token, none is set", side.connection.peer()),
              std::string(kTokenHint)},
        "peer has no token to show, and one is asked for here", "start it with --token-file");
  }
  if (side.token && hello.nonce.size() != kNonceBytes) {
    return side.refuse(
        Error{Errc::Protocol, fmt::format("{}: nonce of {} bytes instead of {}",
                                          side.connection.peer(), hello.nonce.size(), kNonceBytes)},
        fmt::format("nonce of {} bytes instead of {}", hello.nonce.size(), kNonceBytes));
  }
  return Unit{};
}

Result<Unit> check_reply(Side& side, const Hello& hello, const HelloReply& reply) {
  if (reply.protocol < hello.protocol_min || reply.protocol > hello.protocol_max) {
    return wrong_version(side, hello,
                         fmt::format("{} {}", printable(reply.role), printable(reply.build)),
                         std::to_string(reply.protocol));
  }
  if (!side.token && reply.auth == "none") return Unit{};
  if (!side.token) {
    return side.refuse(
        Error{Errc::Unauthenticated,
              fmt::format("{} asks for a token, none is set", side.connection.peer()),
              std::string(kTokenHint)},
        "peer has no token to show, and one is asked for here", "start it with --token-file");
  }
  // No falling back to a connection without authentication, whoever asks for it.
  if (reply.auth != "token") {
    return side.refuse(
        Error{Errc::Unauthenticated,
              fmt::format("{} shows no token, and one is asked for here", side.connection.peer())},
        "peer asks for a token, none is set", kTokenHint);
  }
  if (reply.nonce.size() != kNonceBytes ||
      !equal_secrets(reply.proof, mac_of(*side.token, signed_by_listener(side, reply))))
    return token_mismatch(side);
  return Unit{};
}

Task<PeerInfo> connect_steps(Side& side) {
  const Hello hello{.protocol_min = side.limits.protocol_min,
                    .protocol_max = side.limits.protocol_max,
                    .build = side.self.build,
                    .role = side.self.role,
                    .host = side.self.host,
                    .node_name = side.self.node_name,
                    .pid = side.self.pid,
                    .auth = side.token ? "token" : "none",
                    .nonce = random_bytes(kNonceBytes)};
  const Frame hello_frame = encode(hello);
  side.hello_bytes = hello_frame.payload;
  side.connection.send(hello_frame);
  CO_TRY(const auto reply, co_await receive_message<HelloReply>(side));
  CO_TRY_VOID(check_reply(side, hello, reply));
  if (side.token) {
    AuthProof answer;
    answer.proof = mac_of(*side.token, signed_by_connector(kConnectorProof, side));
    side.connection.send(encode(answer));
  }
  start_session(side, ConnectionSide::Connector);
  co_return PeerInfo{.protocol = reply.protocol,
                     .build = reply.build,
                     .role = reply.role,
                     .host = reply.host,
                     .pid = reply.pid,
                     .node_name = reply.node_name};
}

Task<PeerInfo> accept_steps(Side& side) {
  CO_TRY(const auto hello, co_await receive_message<Hello>(side));
  CO_TRY(const std::uint32_t protocol, choose_protocol(side, hello));
  CO_TRY_VOID(check_auth_of_hello(side, hello));
  HelloReply reply{.protocol = protocol,
                   .build = side.self.build,
                   .role = side.self.role,
                   .host = side.self.host,
                   .node_name = side.self.node_name,
                   .pid = side.self.pid,
                   .auth = side.token ? "token" : "none",
                   .nonce = random_bytes(kNonceBytes),
                   .proof = {}};
  if (side.token) reply.proof = mac_of(*side.token, signed_by_listener(side, reply));
  const Frame reply_frame = encode(reply);
  side.reply_bytes = reply_frame.payload;
  side.connection.send(reply_frame);
  if (side.token) {
    CO_TRY(const auto answer, co_await receive_message<AuthProof>(side));
    if (!equal_secrets(answer.proof,
                       mac_of(*side.token, signed_by_connector(kConnectorProof, side))))
      co_return token_mismatch(side);
  }
  start_session(side, ConnectionSide::Listener);
  co_return PeerInfo{.protocol = protocol,
                     .build = hello.build,
                     .role = hello.role,
                     .host = hello.host,
                     .pid = hello.pid,
                     .node_name = hello.node_name};
}

using Steps = Task<PeerInfo> (*)(Side&);

Task<PeerInfo> run_handshake(Connection& connection, const Identity& self,
                             const std::optional<Token>& token, HandshakeLimits limits,
                             Steps steps) {
  constexpr auto kFarewellTime = milliseconds(500);
  Side side{.connection = connection, .self = self, .token = token, .limits = limits};
  connection.set_payload_limit(kHelloPayloadBytesMax);
  auto result = co_await within(limits.time, steps(side));
  if (result.has_value()) co_return result;
  Error error = std::move(result).error();
  if (error.code == Errc::Timeout && !side.refused_by_peer)
    error.message = fmt::format("{}: handshake not over within {}", connection.peer(),
                                format_duration(limits.time));
  // Tell the peer, unless it is gone or knows better.
  const bool peer_listens =
      !side.refused_by_peer && error.code != Errc::Unavailable && error.code != Errc::Cancelled;
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

Task<PeerInfo> connect_handshake(Connection& connection, const Identity& self,
                                 const std::optional<Token>& token, HandshakeLimits limits) {
  return run_handshake(connection, self, token, limits, connect_steps);
}

Task<PeerInfo> accept_handshake(Connection& connection, const Identity& self,
                                const std::optional<Token>& token, HandshakeLimits limits) {
  return run_handshake(connection, self, token, limits, accept_steps);
}

}  // namespace train
