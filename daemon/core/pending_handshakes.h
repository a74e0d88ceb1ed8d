// Connections that have not shown yet who they are. Each costs a descriptor for as long as a
// handshake may take, and anybody who reaches the port can make them: there is a limit for all, and
// where it is reached, the oldest one of the network that has the most goes, and among networks
// that have as many, the oldest of all. A launcher's own handshake is over in milliseconds, long
// before it is the oldest. Pure.
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

  /// `address`: without the port; an IPv6 one counts with all of its /64, which one machine has for
  /// itself. `id`: more than any before. The connection that is to be closed for the new one, if
  /// any.
  std::optional<std::uint64_t> begin(std::uint64_t id, const std::string& address);
  /// It is over, however it went.
  void end(std::uint64_t id);
  std::size_t size() const { return addresses_.size(); }

 private:
  std::map<std::string, std::deque<std::uint64_t>> by_address_;  // oldest first
  std::map<std::uint64_t, std::string> addresses_;
};

}  // namespace train
