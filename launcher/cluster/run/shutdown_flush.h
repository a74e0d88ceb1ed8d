// Waits at the end of a run for what is still to be written. Storage may hang, so all waits
// together have a limit, which is shorter once somebody has asked to end at once.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>

#include "launcher/report/user_messages.h"
#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/net/task.h"

namespace train {

inline constexpr Duration kEscalatedFlushMax = seconds(3);
/// How long we wait before we tell the user that the run's end waits.
inline constexpr Duration kFlushQuiet = seconds(2);

class ShutdownFlush {
 public:
  ShutdownFlush(asio::any_io_executor executor, Scope& scope, const Clock& clock, Duration limit,
                UserMessages& messages)
      : executor_(executor),
        scope_(scope),
        clock_(clock),
        limit_(limit),
        messages_(messages),
        changed_(executor) {}

  /// Start counting the limit. A second call changes nothing.
  void begin();
  /// Shorten the limit. May be called before begin().
  void escalate();
  /// Wait for the task. Return whether it succeeded in time; otherwise it continues, but nobody
  /// waits for it.
  asio::awaitable<bool> wait_for(Task<Unit> task);
  /// Do the same for work that blocks.
  asio::awaitable<bool> wait_for_thread(std::function<void()> work);
  /// Return whether everything that was waited for ended in time.
  bool in_time() const { return in_time_; }

 private:
  asio::awaitable<void> mark(Task<Unit> task, std::shared_ptr<bool> done);
  asio::awaitable<bool> wait_until_done(std::shared_ptr<bool> done);

  asio::any_io_executor executor_;
  Scope& scope_;
  const Clock& clock_;
  const Duration limit_;
  UserMessages& messages_;
  Notifier changed_;
  TimePoint began_{}, until_ = TimePoint::max();
  bool begun_ = false, escalated_ = false, said_ = false, in_time_ = true;
};

}  // namespace train
