// Checks the messages of workers after their welcome (worker_frames.h), keeps them for a launcher
// that attaches later, and passes them on.
#pragma once

#include <functional>
#include <map>

#include "daemon/supervisor/checkpoints/node_checkpoints.h"
#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/memory_profiles.h"
#include "daemon/supervisor/workers/once_per_node.h"
#include "daemon/supervisor/workers/worker_calls.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"

namespace train {

class WorkerMessages {
 public:
  struct Parts {
    Scope& scope;
    Notifier& changed;
    std::map<Rank, WorkerSlot>& slots;
    Uplink& uplink;
    NodeCheckpoints& checkpoints;
    std::function<void(Rank rank, const Frame& frame)> send;  // to a worker
    std::function<void(Rank rank)> left;                      // it has said goodbye
    std::function<void(Rank rank)> stays;                     // likewise; its process does not end
    MemoryProfiles& memory_profiles;
    WorkerCalls& calls;
  };
  WorkerMessages(Attempt attempt, Parts parts) : attempt_(attempt), parts_(std::move(parts)) {}

  /// Handle a frame from the connection of `rank`. An error ends that connection.
  Result<Unit> received(Rank rank, Frame frame);

 private:
  static Result<Unit> keep_for(WorkerSlot& slot, const Frame& frame);
  Result<Unit> pass_on(std::uint64_t number, const Frame& call,
                       std::map<std::uint64_t, Frame>& unanswered);
  void reply(const OncePerNode::Replies& replies);
  asio::awaitable<void> stage(Rank rank, CheckpointStaged message);

  const Attempt attempt_;
  const Parts parts_;
  OncePerNode once_;
};

}  // namespace train
