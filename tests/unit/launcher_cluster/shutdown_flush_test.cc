// Ends a run on storage that may hang.
#include "launcher/cluster/run/shutdown_flush.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <latch>
#include <optional>

#include "tests/fakes/eventually.h"
#include "tests/unit/launcher_cluster/fakes.h"

namespace train {
namespace {

struct SetClock final : Clock {
  TimePoint now() const override { return at; }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  TimePoint at = std::chrono::steady_clock::now();
};

class ShutdownFlushTest : public testing::Test {
 protected:
  /// A task that ends once open() was called.
  Task<Unit> hanging() {
    while (!open_) {
      const auto woken = co_await opened_.wait_until(TimePoint::max());
      if (woken.has_error()) co_return woken.error();
    }
    co_return Unit{};
  }
  void open() {
    open_ = true;
    opened_.notify();
  }
  void wait_for(Task<Unit> task) {
    answer_.reset();
    asio::co_spawn(
        context_,
        [](ShutdownFlush& writes, Task<Unit> what,
           std::optional<bool>& answer) -> asio::awaitable<void> {
          auto waiting = writes.wait_for(std::move(what));
          answer = co_await std::move(waiting);
        }(writes_, std::move(task), answer_),
        [](const std::exception_ptr&) {});
    look();
  }
  /// Run everything that can go on now.
  void look() {
    context_.restart();
    while (context_.poll() > 0) continue;
  }
  /// Let time pass, and let the waiting tasks look.
  void pass(Duration time) {
    clock_.at += time;
    writes_look();
  }
  /// Wait for another task's end, which wakes those that wait.
  void writes_look() {
    asio::co_spawn(
        context_,
        [](ShutdownFlush& writes) -> asio::awaitable<void> {
          auto waiting = writes.wait_for([]() -> Task<Unit> { co_return Unit{}; }());
          (void)co_await std::move(waiting);
        }(writes_),
        [](const std::exception_ptr&) {});
    look();
  }

  asio::io_context context_;
  SetClock clock_;
  Scope scope_{context_.get_executor()};
  Notifier opened_{context_.get_executor()};
  bool open_ = false;
  RecordedMessages messages_;
  ShutdownFlush writes_{context_.get_executor(), scope_, clock_, seconds(30), messages_};
  std::optional<bool> answer_;
};

TEST_F(ShutdownFlushTest, WhatEndsInTimeIsAwaited) {
  writes_.begin();
  wait_for(hanging());
  EXPECT_FALSE(answer_);

  open();
  look();

  EXPECT_EQ(answer_, true);
  EXPECT_TRUE(writes_.in_time());
  EXPECT_EQ(messages_.phases, std::vector<std::string>{});
}

TEST_F(ShutdownFlushTest, ATaskThatFailsIsNotDone) {
  writes_.begin();
  wait_for([]() -> Task<Unit> { co_return Error{Errc::Io, "no"}; }());
  pass(seconds(31));
  EXPECT_EQ(answer_, false);
  EXPECT_FALSE(writes_.in_time());
}

TEST_F(ShutdownFlushTest, AfterTwoSecondsItIsSaidOnceThatItWaits) {
  writes_.begin();
  wait_for(hanging());
  pass(milliseconds(1999));
  EXPECT_EQ(messages_.phases, std::vector<std::string>{});

  pass(milliseconds(1));
  pass(seconds(1));

  EXPECT_EQ(messages_.phases, std::vector<std::string>{
                                  "waiting at most 28.0 s for the last writes; Ctrl-C ends that"});
  open();
  look();
  EXPECT_EQ(answer_, true);
}

TEST_F(ShutdownFlushTest, NobodyWaitsLongerThanTheLimit) {
  writes_.begin();
  wait_for(hanging());
  pass(milliseconds(29'999));
  EXPECT_FALSE(answer_);

  pass(milliseconds(1));

  EXPECT_EQ(answer_, false);
  EXPECT_FALSE(writes_.in_time());
  wait_for(hanging());  // the limit is for all together
  EXPECT_EQ(answer_, false);
  open();
  look();
}

TEST_F(ShutdownFlushTest, TheLimitCountsFromTheFirstBeginning) {
  writes_.begin();
  wait_for(hanging());
  pass(seconds(20));
  writes_.begin();
  pass(seconds(10));
  EXPECT_EQ(answer_, false);
  open();
  look();
}

TEST_F(ShutdownFlushTest, EscalatedItWaitsThreeSecondsMore) {
  writes_.begin();
  wait_for(hanging());
  pass(seconds(1));
  writes_.escalate();
  pass(milliseconds(2999));
  EXPECT_FALSE(answer_);

  pass(milliseconds(1));

  EXPECT_EQ(answer_, false);
  EXPECT_EQ(messages_.phases, std::vector<std::string>{}) << "who hurries knows that it waits";
  open();
  look();
}

TEST_F(ShutdownFlushTest, EscalationNeverMakesItLonger) {
  writes_.begin();
  wait_for(hanging());
  pass(seconds(29));
  writes_.escalate();
  pass(seconds(1));
  EXPECT_EQ(answer_, false);
  open();
  look();
}

TEST_F(ShutdownFlushTest, EscalatedBeforeItBeganItHasThreeSeconds) {
  writes_.escalate();
  pass(seconds(5));
  writes_.begin();
  wait_for(hanging());
  pass(milliseconds(2999));
  EXPECT_FALSE(answer_);
  pass(milliseconds(1));
  EXPECT_EQ(answer_, false);
  open();
  look();
}

TEST_F(ShutdownFlushTest, WhatBlocksIsDoneOnAThread) {
  writes_.begin();
  std::latch go(1);
  std::optional<bool> done;
  asio::co_spawn(
      context_,
      [](ShutdownFlush& writes, std::latch& wait,
         std::optional<bool>& answer) -> asio::awaitable<void> {
        const std::function<void()> work = [&wait] { wait.wait(); };
        auto waiting = writes.wait_for_thread(work);
        answer = co_await std::move(waiting);
      }(writes_, go, done),
      [](const std::exception_ptr&) {});
  look();
  EXPECT_FALSE(done);

  go.count_down();

  EXPECT_TRUE(fakes::eventually([&] {
    look();
    return done.has_value();
  }));
  EXPECT_EQ(done, true);
  EXPECT_TRUE(writes_.in_time());
}

}  // namespace
}  // namespace train
