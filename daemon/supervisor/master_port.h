// The port at which the ranks of an attempt meet. The supervisor binds it, does not listen on it,
// and holds it for as long as it lives. So nobody else gets the port, a C++ rank 0 inherits the
// socket, and a Python rank 0 can bind the same port beside it (SO_REUSEADDR).
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace train {

class MasterPort {
 public:
  /// Bind a free port of `address` ("" for all addresses, IPv6 and IPv4).
  static Result<MasterPort> bind(const std::string& address);
  MasterPort(MasterPort&& other) noexcept : fd_(other.fd_), port_(other.port_) { other.fd_ = -1; }
  MasterPort& operator=(MasterPort&& other) noexcept;
  ~MasterPort();

  int fd() const { return fd_; }
  std::uint16_t port() const { return port_; }

 private:
  MasterPort(int fd, std::uint16_t port) : fd_(fd), port_(port) {}
  int fd_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace train
