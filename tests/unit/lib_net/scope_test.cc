#include "lib/net/scope.h"

#include <gmock/gmock.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

using testing::ElementsAre;

class ScopeTest : public NetTest {};

TEST_F(ScopeTest, JoinWaitsUntilAllHaveEnded) {
  run([&]() -> asio::awaitable<void> {
    Scope scope(executor());
    int ended = 0;
    const auto flow = [](int& count, Duration time) -> asio::awaitable<void> {
      auto paused = co_await pause_for(time);
      if (paused.has_value()) ++count;
    };
    scope.spawn("first", flow(ended, 2ms));
    scope.spawn("second", flow(ended, 1ms));
    EXPECT_THAT(scope.names(), ElementsAre("first", "second"));
    co_await scope.join();
    EXPECT_EQ(ended, 2);
    EXPECT_EQ(scope.size(), 0u);
  });
}

TEST_F(ScopeTest, CancelEndsWhatWaitsAndNothingStartsAfterwards) {
  run([&]() -> asio::awaitable<void> {
    Scope scope(executor());
    std::vector<Errc> seen;
    bool started_late = false;
    const auto flow = [](std::vector<Errc>& out) -> asio::awaitable<void> {
      auto paused = co_await pause_for(1h);
      if (paused.has_error()) out.push_back(paused.error().code);
    };
    const auto late = [](bool& started) -> asio::awaitable<void> {
      started = true;
      co_return;
    };
    for (int i = 0; i < 3; ++i) scope.spawn("waiter", flow(seen));
    auto paused = co_await pause_for(1ms);  // they are waiting now
    EXPECT_TRUE(paused.has_value());
    scope.cancel();
    scope.cancel();
    scope.spawn("late", late(started_late));
    co_await scope.join();
    EXPECT_THAT(seen, ElementsAre(Errc::Cancelled, Errc::Cancelled, Errc::Cancelled));
    EXPECT_FALSE(started_late);
  });
}

TEST_F(ScopeTest, EveryWaitOfACancelledFlowIsCancelled) {
  run([&]() -> asio::awaitable<void> {
    Scope scope(executor());
    int cancelled = 0;
    const auto slow_to_leave = [](int& count) -> asio::awaitable<void> {
      while (count < 3) {
        auto paused = co_await within(1h, pause_for(2h));
        if (paused.has_error() && paused.error().code == Errc::Cancelled) ++count;
      }
    };
    scope.spawn("slow to leave", slow_to_leave(cancelled));
    auto paused = co_await pause_for(1ms);
    EXPECT_TRUE(paused.has_value());
    scope.cancel();
    co_await scope.join();
    EXPECT_EQ(cancelled, 3);
  });
}

TEST_F(ScopeTest, CancelBeforeTheFirstStep) {
  run([&]() -> asio::awaitable<void> {
    Scope scope(executor());
    const auto flow = []() -> asio::awaitable<void> {
      [[maybe_unused]] auto ignored = co_await pause_for(1h);
    };
    scope.spawn("never gets far", flow());
    scope.cancel();
    co_await scope.join();
    EXPECT_EQ(scope.size(), 0u);
  });
}

TEST_F(ScopeTest, ACancelledParentStillJoinsItsChildren) {
  run([&]() -> asio::awaitable<void> {
    Scope outer(executor());
    bool child_ended = false, parent_ended = false;
    const auto child = [](bool& ended) -> asio::awaitable<void> {
      [[maybe_unused]] auto ignored = co_await pause_for(1h);
      ended = true;
    };
    const auto parent = [](asio::any_io_executor ex, auto make_child, bool& child_end,
                           bool& end) -> asio::awaitable<void> {
      Scope inner(ex);
      inner.spawn("child", make_child(child_end));
      [[maybe_unused]] auto ignored = co_await pause_for(1h);
      inner.cancel();
      co_await inner.join();
      end = child_end;
    };
    outer.spawn("parent", parent(executor(), child, child_ended, parent_ended));
    auto paused = co_await pause_for(1ms);
    EXPECT_TRUE(paused.has_value());
    outer.cancel();
    co_await outer.join();
    EXPECT_TRUE(parent_ended);
  });
}

TEST_F(ScopeTest, AScopeThatEndsBeforeItsCoroutinesIsABug) {
  EXPECT_DEATH(
      {
        Scope scope(executor());
        const auto flow = []() -> asio::awaitable<void> {
          [[maybe_unused]] auto ignored = co_await pause_for(1h);
        };
        scope.spawn("left behind", flow());
      },
      "a scope ends before its coroutines: left behind");
}

TEST_F(ScopeTest, AnExceptionThatLeavesACoroutineIsABug) {
  EXPECT_DEATH(
      {
        Scope scope(executor());
        const auto flow = []() -> asio::awaitable<void> {
          throw std::runtime_error("lost its way");
          co_return;
        };
        scope.spawn("thrower", flow());
        io_.run();
      },
      "coroutine 'thrower' threw: lost its way");
}

TEST_F(ScopeTest, TheExceptionByWhichAsioEndsACancelledCoroutineIsNoBug) {
  run([&]() -> asio::awaitable<void> {
    Scope scope(executor());
    const auto flow = [](asio::any_io_executor ex) -> asio::awaitable<void> {
      asio::steady_timer timer(ex, 1h);
      co_await timer.async_wait(asio::use_awaitable);
    };
    scope.spawn("waiter", flow(executor()));
    scope.cancel();
    co_await scope.join();
    EXPECT_EQ(scope.size(), 0u);
  });
}

TEST_F(ScopeTest, AnotherExceptionOfAsiosIsABug) {
  EXPECT_DEATH(
      {
        Scope scope(executor());
        const auto flow = []() -> asio::awaitable<void> {
          throw boost::system::system_error(asio::error::connection_refused);
          co_return;
        };
        scope.spawn("thrower", flow());
        io_.run();
      },
      "coroutine 'thrower' threw: Connection refused");
}

class WithinTest : public NetTest {};

TEST_F(WithinTest, ReturnsWhatTheTaskReturns) {
  run([&]() -> asio::awaitable<void> {
    const auto answer = []() -> Task<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
    auto value = co_await within(1h, answer());
    EXPECT_TRUE(value.has_value());
    if (value.has_value()) {
      EXPECT_EQ(**value, 7);
    }
    const auto failure = []() -> Task<int> { co_return Error{Errc::NotFound, "no such thing"}; };
    auto error = co_await within(1h, failure());
    EXPECT_TRUE(error.has_error());
    if (error.has_error()) {
      EXPECT_EQ(error.error(), (Error{Errc::NotFound, "no such thing"}));
    }
  });
}

TEST_F(WithinTest, CancelsTheTaskAtTheDeadlineAndWaitsForItsEnd) {
  run([&]() -> asio::awaitable<void> {
    bool cleaned_up = false;
    const auto slow = [](bool& end) -> Task<Unit> {
      auto paused = co_await pause_for(1h);
      end = true;
      co_return paused;
    };
    auto result = co_await within(2ms, slow(cleaned_up));
    EXPECT_TRUE(cleaned_up);
    EXPECT_TRUE(result.has_error());
    if (result.has_error()) {
      EXPECT_EQ(result.error(), (Error{Errc::Timeout, "no answer within 2 ms"}));
    }
  });
}

TEST_F(WithinTest, ATaskThatGoesOnWaitingAfterTheDeadlineIsEnded) {
  run([&]() -> asio::awaitable<void> {
    const auto stubborn = []() -> Task<Unit> {
      for (;;) [[maybe_unused]] auto ignored = co_await pause_for(1h);
    };
    auto result = co_await within(2ms, stubborn());
    EXPECT_TRUE(result.has_error());
    if (result.has_error()) {
      EXPECT_EQ(result.error().code, Errc::Timeout);
    }
    // The waiting flow itself is not cancelled: it can go on.
    auto paused = co_await pause_for(1ms);
    EXPECT_TRUE(paused.has_value());
  });
}

TEST_F(WithinTest, AValueReachedAtTheDeadlineIsKept) {
  run([&]() -> asio::awaitable<void> {
    const auto late = []() -> Task<int> {
      [[maybe_unused]] auto ignored = co_await pause_for(1h);  // ended by the deadline
      co_return 7;
    };
    auto result = co_await within(1ms, late());
    EXPECT_TRUE(result.has_value());
    if (result.has_value()) {
      EXPECT_EQ(*result, 7);
    }
  });
}

TEST_F(WithinTest, CancellingTheCallerCancelsTheTask) {
  run([&]() -> asio::awaitable<void> {
    Scope scope(executor());
    std::optional<Errc> seen;
    const auto flow = [](std::optional<Errc>& out) -> asio::awaitable<void> {
      auto result = co_await within(1h, within(2h, pause_for(3h)));
      if (result.has_error()) out = result.error().code;
    };
    scope.spawn("waiter", flow(seen));
    auto paused = co_await pause_for(1ms);
    EXPECT_TRUE(paused.has_value());
    scope.cancel();
    co_await scope.join();
    EXPECT_EQ(seen, Errc::Cancelled);
  });
}

TEST_F(WithinTest, TheInnerDeadlineOfTwoIsTheOneThatIsNamed) {
  run([&]() -> asio::awaitable<void> {
    auto result = co_await within(1h, within(2ms, pause_for(3h)));
    EXPECT_TRUE(result.has_error());
    if (result.has_error()) {
      EXPECT_EQ(result.error().message, "no answer within 2 ms");
    }
  });
}

}  // namespace
}  // namespace train
