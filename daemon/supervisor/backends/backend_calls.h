// Collectives that the supervisor makes for its ranks, by way of the launcher, as workers make
// theirs (PROTOCOL.md, "Collectives of backends").
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"

namespace train {

class BackendCalls {
 public:
  using Parts = std::shared_ptr<const CollectiveResult>;
  /// The limit of a rank's data.
  static constexpr std::size_t kDataBytesMax = 64u << 10;

  BackendCalls(asio::any_io_executor executor, Attempt attempt, std::map<Rank, WorkerSlot>& slots,
               Uplink& uplink)
      : attempt_(attempt), slots_(slots), uplink_(uplink), changed_(std::move(executor)) {}

  /// Exchange data among all ranks of the attempt: return each one's, by rank. The n-th call of a
  /// rank meets the n-th of every other; names must agree. The rank must have a slot.
  Task<Parts> all_gather(Rank rank, std::string name, std::string data);
  /// Take in a result from the launcher.
  void answered(Parts result);

 private:
  struct Call {
    std::size_t waiting = 0;  // ranks of this node
    Parts result = {};
  };
  const Attempt attempt_;
  std::map<Rank, WorkerSlot>& slots_;
  Uplink& uplink_;
  Notifier changed_;
  std::map<Rank, std::uint64_t> made_;   // calls of each rank
  std::map<std::uint64_t, Call> calls_;  // that ranks wait for
};

}  // namespace train
