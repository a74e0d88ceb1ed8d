// How a connection begins: TLS where it goes over a network, by which both sides prove who they
// are, then the first frames: who is there, and which protocol both speak. PROTOCOL.md,
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

/// Random, the same as long as this process lives: by it a peer sees that it talks to itself.
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

/// Say hello as the side that connected, or answer as the one that listens. With `tls` a network
/// link is TLS or nothing; without it, it is plain. A Unix socket is always plain: its file's mode
/// and credentials() say who is there. A certificate must name the other role of our own cluster,
/// and a node that says who it is, itself. On failure the peer is told why where it still listens
/// (an alert of TLS, a Refused frame), and the connection is closed: Errc::Unauthenticated (token),
/// Protocol (version, bytes), Timeout, Unavailable. Afterwards full-size frames are allowed. The
/// references must outlive the flow.
Task<PeerInfo> connect_handshake(Connection& connection, const Identity& self,
                                 const std::optional<TlsContext>& tls, HandshakeLimits limits = {});
Task<PeerInfo> accept_handshake(Connection& connection, const Identity& self,
                                const std::optional<TlsContext>& tls, HandshakeLimits limits = {});

}  // namespace train
