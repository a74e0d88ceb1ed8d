// The first frames of a connection: who is there, which protocol both speak, and proof that both
// hold the cluster's token. PROTOCOL.md, "Handshake", has the order and the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/time.h"
#include "lib/net/connection.h"
#include "lib/net/token.h"
#include "lib/wire/messages.h"

namespace train {

struct Identity {
  std::string build, role, host;  // role: launcher | status | traind | supervisor | …
  std::int64_t pid = 0;
  std::string node_name;
};

struct PeerInfo {
  std::uint32_t protocol = 0;  // the version that both speak from here on
  std::string build, role, host;
  std::int64_t pid = 0;
  std::string node_name;
};

struct HandshakeLimits {
  Duration time =
      std::chrono::seconds(5);  // for the whole handshake, however slowly the peer sends
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
};

/// Say hello as the side that connected, or answer as the one that listens. On failure the peer is
/// told why (a Refused frame) where it still listens, and the connection is closed:
/// Errc::Unauthenticated (token), Protocol (version, bytes), Timeout, Unavailable. Afterwards
/// full-size frames are allowed, and with a token every frame carries a MAC. The references must
/// outlive the flow.
Task<PeerInfo> connect_handshake(Connection& connection, const Identity& self,
                                 const std::optional<Token>& token, HandshakeLimits limits = {});
Task<PeerInfo> accept_handshake(Connection& connection, const Identity& self,
                                const std::optional<Token>& token, HandshakeLimits limits = {});

}  // namespace train
