// This file begins a connection. Over a network, TLS comes first, by which both sides prove who
// they are. Then the first frames tell who each side is and which protocol version both speak.
// PROTOCOL.md, "Handshake", has the order and the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/time.h"
#include "lib/net/connection.h"
#include "lib/net/tls.h"
#include "lib/wire/message_type.h"

namespace train {

/// Return a random text that stays the same as long as this process lives. By it a peer notices
/// that it talks to itself.
const std::string& process_instance();

struct Identity {
  std::string build, role, host;  // role: launcher | control | traind
  std::int64_t pid = 0;
  std::string node_name;
  std::string instance = process_instance();
};

struct PeerInfo {
  std::uint32_t protocol = 0;  // the version that both speak from here on
  std::string build, role, host;
  std::int64_t pid = 0;
  std::string node_name;
  std::optional<CertificateName> certificate;  // where certificates are shown
};

struct HandshakeLimits {
  Duration time =
      std::chrono::seconds(5);  // for the whole handshake, however slowly the peer sends
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
};

/// Say hello as the side that connected, or answer as the side that listens. With `tls` a network
/// link must be TLS; without it, the link is plain. A Unix socket is always plain: its file's mode
/// and credentials() say who is there. A certificate must name the other role of our own cluster,
/// and the certificate of a node that gives its name must name that node. On failure the peer is
/// told why if it still listens (an alert of TLS, a Refused frame), and the connection is closed:
/// Errc::Unauthenticated (token), Protocol (version, bytes), Timeout, Unavailable. Afterwards
/// full-size frames are allowed. The references must outlive the flow.
Task<PeerInfo> connect_handshake(Connection& connection, const Identity& self,
                                 const std::optional<TlsContext>& tls, HandshakeLimits limits = {});
Task<PeerInfo> accept_handshake(Connection& connection, const Identity& self,
                                const std::optional<TlsContext>& tls, HandshakeLimits limits = {});

}  // namespace train
