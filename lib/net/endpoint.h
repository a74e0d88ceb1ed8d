// The address of a listener: a TCP host and port, or the path of a Unix socket.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace train {

struct Endpoint {
  enum Kind { Unix, Tcp };
  Kind kind = Tcp;
  // An empty host: all addresses when listening, this machine when connecting.
  std::string host_or_path;
  std::uint16_t port = 0;  // 0: the system picks one when listening

  static Endpoint tcp(std::string host, std::uint16_t port) { return {Tcp, std::move(host), port}; }
  static Endpoint unix_socket(std::string path) { return {Unix, std::move(path), 0}; }

  /// Return whether only this machine can reach it: a Unix socket, 127.0.0.0/8 (also mapped into
  /// IPv6), ::1, localhost.
  bool is_loopback() const;
  /// Return it as parse_endpoint reads it: "unix:/run/x.sock", "node-b:7070", "[::1]:7070".
  std::string text() const;

  bool operator==(const Endpoint&) const = default;
};

/// Parse "unix:/run/x.sock", "host:port", "[v6]:port" or ":port".
Result<Endpoint> parse_endpoint(std::string_view text);

}  // namespace train
