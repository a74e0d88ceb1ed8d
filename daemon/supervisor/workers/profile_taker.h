// Takes profiles of workers when the launcher asks for them, each on a thread of its own.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <set>

#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/memory_profiles.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/net/task.h"
#include "lib/profile/profile.h"
#include "lib/wire/attempt_messages.h"

namespace train {

class ProfileTaker {
 public:
  static constexpr std::size_t kAtATime = 4;

  ProfileTaker(const std::map<Rank, WorkerSlot>& slots, Uplink& uplink, MemoryProfiles& memory)
      : slots_(slots), uplink_(uplink), memory_(memory) {}
  /// Take a profile of a worker's processes, and send it. Only one of a rank, and kAtATime of all
  /// ranks, are taken at a time: further orders get an error.
  asio::awaitable<void> take(TakeProfile order);

 private:
  Task<Profile> take_of(Rank rank, ProfileKind kind, Duration time);
  Task<Profile> take_of_memory(Rank rank, Duration time);

  const std::map<Rank, WorkerSlot>& slots_;
  Uplink& uplink_;
  MemoryProfiles& memory_;
  std::set<Rank> busy_;
};

}  // namespace train
