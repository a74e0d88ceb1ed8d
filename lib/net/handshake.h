// This file begins a connection. Over a network, both sides first prove by TLS who they are. Then
// the first frames exchange identities and choose a protocol version that both speak. PROTOCOL.md,
// "Handshake", has the order and the bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/time.h"
#include "lib/net/connection.h"
#include "lib/net/tls.h"
#include "lib/wire/message_type.h"

namespace train {

/// Return a random text that stays the same as long as this process lives. It lets a process notice
/// that it is talking to itself.
const std::string& process_instance();

struct Identity {
  std::string build, role, host;  // role: launcher | control | traind
  std::int64_t pid = 0;
  std::string node_name;
  std::string instance = process_instance();
};

struct PeerInfo {
  std::uint32_t protocol = 0;  // the version that both sides use from now on
  std::string build, role, host;
  std::int64_t pid = 0;
  std::string node_name;
  std::string instance = {};                   // random, of its process
  std::optional<CertificateName> certificate;  // if the peer presented a certificate
};

struct HandshakeLimits {
  // For the whole handshake, however slowly the peer sends.
  Duration time = std::chrono::seconds(5);
  std::uint32_t protocol_min = kProtocolMin, protocol_max = kProtocolMax;
};

/// Do the handshake as the side that connected, or as the side that listens. With `tls` a network
/// link must use TLS; without it, the link is plain. A Unix socket is always plain: its file's mode
/// and credentials() tell who the peer is. A certificate must name the other role of our own
/// cluster, and a node's certificate must match the node name that it sends. On failure, the peer
/// is told the reason if it still listens (a TLS alert, a Refused frame), and the connection is
/// closed: Errc::Unauthenticated (token, certificate, role), Protocol (version, bytes), Timeout,
/// Unavailable. Afterwards full-size frames are allowed. The references must outlive the flow.
Task<PeerInfo> connect_handshake(Connection& connection, const Identity& self,
                                 const std::optional<TlsContext>& tls, HandshakeLimits limits = {});
Task<PeerInfo> accept_handshake(Connection& connection, const Identity& self,
                                const std::optional<TlsContext>& tls, HandshakeLimits limits = {});

}  // namespace train
