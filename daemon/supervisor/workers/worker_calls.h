// Passes calls of functions that programs serve on to the workers of this node, and sees to it that
// each gets one answer: that of the worker, or why there is none. Main thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/wire/attempt_messages.h"

namespace train {

class WorkerCalls {
 public:
  using Send = std::function<void(Rank rank, const Frame& frame)>;

  /// `send` passes a frame to a worker that is connected.
  WorkerCalls(Attempt attempt, std::map<Rank, WorkerSlot>& slots, Uplink& uplink, Send send)
      : attempt_(attempt), slots_(slots), uplink_(uplink), send_(std::move(send)) {}

  /// Pass a call on to its ranks of this node. One whose program has not joined yet hears of it
  /// then.
  void call(const CallWorkers& order);
  /// The worker's program has said hello.
  void joined(Rank rank);
  /// Take a worker's answer. An answer that nobody waits for is dropped; an error ends the worker's
  /// connection.
  Result<Unit> received(WorkerAnswered answer);
  /// The worker has left its loop or closed its connection: what it has not answered, it will not.
  void gone(Rank rank, const std::string& why);

 private:
  void call_one(Rank rank, const CallWorkers& order);
  void pass_on(Rank rank, std::uint64_t request, const Frame& frame);
  void answer_for(Rank rank, std::uint64_t request, std::string_view kind, std::string why);

  const Attempt attempt_;
  std::map<Rank, WorkerSlot>& slots_;
  Uplink& uplink_;
  const Send send_;
  std::map<Rank, std::set<std::uint64_t>> unanswered_;          // requests that are with the worker
  std::map<Rank, std::map<std::uint64_t, Frame>> before_join_;  // by request
};

}  // namespace train
