#include "launcher/cluster/run/worker_hold.h"

#include <algorithm>

#include "lib/net/within.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr Duration kHoldMax = std::chrono::minutes(10);
constexpr Duration kAllWaitWithin = seconds(5);
constexpr Duration kReapedWithin = seconds(10);  // in addition to our patience

}  // namespace

void WorkerHold::keeps(NodeId node) {
  on_.insert(node);
  waiting_on_.erase(node);  // as of the run before
}

void WorkerHold::waits(NodeId node) {
  waiting_on_.insert(node);
  changed_.notify();
}

void WorkerHold::lost(NodeId node) {
  on_.erase(node);
  changed_.notify();
}

void WorkerHold::superseded() {
  superseded_ = true;
  changed_.notify();
}

void WorkerHold::let_go(Duration patience) {
  let_go_ = std::min(patience, let_go_.value_or(patience));
  changed_.notify();
}

Task<Unit> WorkerHold::wait_for_all() {
  while (!std::includes(waiting_on_.begin(), waiting_on_.end(), on_.begin(), on_.end())) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
  co_return Unit{};
}

asio::awaitable<bool> WorkerHold::all_wait() {
  auto waiting = within(kAllWaitWithin, wait_for_all());
  const auto waited = co_await std::move(waiting);
  co_return waited.has_value() && !on_.empty();
}

asio::awaitable<void> WorkerHold::hold(Attempt attempt) {
  const TimePoint until = clock_.now() + kHoldMax;
  while (!let_go_ && !superseded_ && clock_.now() < until) {
    const auto woken = co_await changed_.wait_until(until);
    if (woken.has_error()) co_return;
  }
  if (superseded_) co_return;
  auto ending = end(attempt);
  co_await std::move(ending);
}

asio::awaitable<void> WorkerHold::end(Attempt attempt) {
  const Duration patience = let_go_.value_or(kPatience);
  const StopWorkers stop{std::chrono::duration_cast<milliseconds>(patience).count(),
                         "no other run has come"};
  for (const NodeId node : on_) {
    links_.send(node, encode(stop, attempt));
    links_.send(node, encode(ReleaseAttempt{}, attempt));
  }
  const TimePoint until = clock_.now() + patience + kReapedWithin;
  while (!on_.empty() && !superseded_ && clock_.now() < until) {
    const auto woken = co_await changed_.wait_until(until);
    if (woken.has_error()) co_return;
  }
}

}  // namespace train
