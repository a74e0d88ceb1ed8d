// A port that is kept for another process: that at which the ranks of an attempt meet, or one of
// them serves, or that of torchft's lighthouse. Whoever holds it binds it, does not listen on it,
// and keeps it for as long as it lives. So nobody else gets the port, and the process that it is
// for can bind it, too (SO_REUSEADDR). A C++ rank 0 inherits the socket of the master port.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace train {

class HeldPort {
 public:
  /// Bind a free port of `address` ("" for all addresses, IPv6 and IPv4); of a numeric one, `port`,
  /// if that is not 0.
  static Result<HeldPort> bind(const std::string& address, std::uint16_t port = 0);
  HeldPort(HeldPort&& other) noexcept : fd_(other.fd_), port_(other.port_) { other.fd_ = -1; }
  HeldPort& operator=(HeldPort&& other) noexcept;
  ~HeldPort();

  int fd() const { return fd_; }
  std::uint16_t port() const { return port_; }

 private:
  HeldPort(int fd, std::uint16_t port) : fd_(fd), port_(port) {}
  int fd_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace train
