// Limits the connections that have not been authenticated yet. Each costs a descriptor for as long
// as a handshake may take, and anyone who reaches the port can open them. One limit holds for all
// of them. Beyond it, the network with the most connections loses its oldest one; if several
// networks have as many, the oldest of theirs is closed. A launcher's own handshake is over in
// milliseconds, long before it is the oldest. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

namespace train {

class PendingHandshakes {
 public:
  static constexpr std::size_t kMax = 64;

  /// Begin a handshake. Return the connection to close in favour of the new one, if any. `address`:
  /// without the port; an IPv6 address counts as its whole /64, which a single machine may have.
  /// `id`: greater than any before.
  std::optional<std::uint64_t> begin(std::uint64_t id, const std::string& address);
  /// End a handshake, whatever its outcome.
  void end(std::uint64_t id);
  std::size_t size() const { return addresses_.size(); }

 private:
  std::map<std::string, std::deque<std::uint64_t>> by_address_;  // oldest first
  std::map<std::uint64_t, std::string> addresses_;
};

}  // namespace train
