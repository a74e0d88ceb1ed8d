#include "daemon/supervisor/processes/leftover_reaper.h"

#include <fmt/format.h>

#include "daemon/supervisor/processes/adopted.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kReapEvery = milliseconds(10);
constexpr int kQuietRounds = 10, kLastRounds = 100;

}  // namespace

void LeftoverReaper::reap(WorkerSlot& slot) {
  if (slot.cgroup) return slot.cgroup->kill();
  const std::string variable = slot.mark();
  kill_adopted({variable});
  quiet_rounds_ = 0;
  if (variables_.empty()) scope_.spawn("reap leftovers", reap_again());
  variables_.insert(variable);
}

asio::awaitable<void> LeftoverReaper::reap_again() {
  for (; quiet_rounds_ < kQuietRounds; ++quiet_rounds_) {
    const auto paused = co_await pause_for(kReapEvery);  // named, because of a bug of g++ 12
    if (paused.has_error()) co_return;
    if (kill_adopted_with_any(variables_) > 0) quiet_rounds_ = 0;
  }
  variables_.clear();
}

asio::awaitable<void> LeftoverReaper::reap_all() {
  for (int round = 0; round < kLastRounds && kill_adopted({}) > 0; ++round)
    (void)co_await pause_for(kReapEvery);
}

}  // namespace train
