// Takes the stacks of workers when the launcher asks for them, on a thread of its own, and
// meanwhile has the flight recorders of NCCL keep what they know (flight_dumps).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>

#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/attempt_orders.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// How long a capture may take. The launcher waits a little longer.
inline constexpr Duration kStacksWithin = seconds(10);

class StackTaker {
 public:
  StackTaker(const std::map<Rank, WorkerSlot>& slots, Uplink& uplink, const AttemptOrders& orders)
      : slots_(slots), uplink_(uplink), orders_(orders) {}
  /// Take the stacks of the living workers that the order names, and send them. Only one capture
  /// runs at a time: a second order gets an error.
  asio::awaitable<void> take(TakeStacks order);

 private:
  const std::map<Rank, WorkerSlot>& slots_;
  Uplink& uplink_;
  const AttemptOrders& orders_;
  bool busy_ = false;
};

}  // namespace train
