// Tells the launcher of ranks whose program has not begun to use MPI. A program that is linked to
// another MPI, or to none, becomes a world of one per rank, and says nothing of it.
#pragma once

#include <set>
#include <string>

#include "daemon/supervisor/uplink.h"

namespace train {

class MpiInitWatch {
 public:
  /// `uplink` must outlive it.
  explicit MpiInitWatch(Uplink& uplink) : uplink_(uplink) {}

  void expect(Rank rank) { missing_.insert(rank.value); }
  void began(Rank rank) { missing_.erase(rank.value); }
  /// Warn of nobody any more.
  void stop() { missing_.clear(); }
  /// Wait for a minute, and warn of those that are missing then. `question`: what users may look
  /// at.
  asio::awaitable<void> warn(std::string question) const;

 private:
  Uplink& uplink_;
  std::set<std::int32_t> missing_;
};

}  // namespace train
