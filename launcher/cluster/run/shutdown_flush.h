// The end of a run waits for what is still to be written, but storage may hang: all waits together
// have a limit, and a shorter one once somebody has asked to end at once.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/net/task.h"

namespace train {

inline constexpr Duration kHurriedWritesMax = seconds(3);
inline constexpr Duration kLastWritesQuiet = seconds(2);  // before it is said that it waits

class ShutdownFlush {
 public:
  ShutdownFlush(asio::any_io_executor executor, Scope& scope, const Clock& clock, Duration limit,
                std::function<void(const std::string&)> say)
      : executor_(executor),
        scope_(scope),
        clock_(clock),
        limit_(limit),
        say_(std::move(say)),
        changed_(executor) {}

  /// The limit counts from now on; a second call changes nothing.
  void begin();
  /// May come before begin().
  void escalate();
  /// Whether it ended in time. Otherwise it goes on, and nobody waits for it.
  asio::awaitable<bool> wait_for(Task<Unit> task);
  /// The same, of something that blocks.
  asio::awaitable<bool> wait_for_thread(std::function<void()> work);
  /// All that was waited for ended in time.
  bool in_time() const { return in_time_; }

 private:
  asio::awaitable<void> mark(Task<Unit> task, std::shared_ptr<bool> done);
  asio::awaitable<bool> wait_until_done(std::shared_ptr<bool> done);

  asio::any_io_executor executor_;
  Scope& scope_;
  const Clock& clock_;
  const Duration limit_;
  const std::function<void(const std::string&)> say_;
  Notifier changed_;
  TimePoint began_{}, until_ = TimePoint::max();
  bool begun_ = false, hurried_ = false, said_ = false, in_time_ = true;
};

}  // namespace train
