// A Notifier lets coroutines of one thread wait until something has changed: `while (!ready())
// co_await notifier.wait_until(deadline)`.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>

#include "lib/base/time.h"
#include "lib/net/task.h"

namespace train {

class Notifier {
 public:
  explicit Notifier(asio::any_io_executor executor);
  ~Notifier();
  /// Wake all coroutines that are waiting now.
  void notify();
  /// Wait until the next notify() or `deadline`; return true for notify(). Errc::Cancelled if the
  /// caller is cancelled.
  Task<bool> wait_until(TimePoint deadline);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  // shared with pending timer handlers
};

}  // namespace train
