// The workers that a run's train-run holds for the next run.
#include "launcher/cluster/run/worker_hold.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <vector>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "tests/unit/launcher_cluster/fakes.h"

namespace train {
namespace {

constexpr NodeId kA{0}, kB{1};
constexpr Attempt kAttempt{3};

class WorkerHoldTest : public testing::Test {
 protected:
  void SetUp() override {
    hold_.keeps(kA);
    hold_.keeps(kB);
  }
  /// Begin to hold, or to end, the workers.
  void begin(asio::awaitable<void> what) {
    asio::co_spawn(context_, std::move(what), [this](const std::exception_ptr&) { over_ = true; });
    look();
  }
  bool all_wait() {
    std::optional<bool> answer;
    asio::co_spawn(context_, hold_.all_wait(),
                   [&](const std::exception_ptr&, bool wait) { answer = wait; });
    look();
    EXPECT_TRUE(answer) << "it is known already";
    return answer.value_or(false);
  }
  /// Run everything that can go on now.
  void look() {
    context_.restart();
    while (context_.poll() > 0) continue;
  }
  /// Return what was sent: "a stop 5000", "a release".
  std::vector<std::string> sent() {
    look();
    return sent_;
  }

  asio::io_context context_;
  SystemClock clock_;
  std::vector<std::string> sent_;
  FakeLinks links_{{kA, kB}, [this](NodeId node, const Frame& frame) {
                     EXPECT_EQ(frame.attempt, kAttempt);
                     const std::string to = node == kA ? "a " : "b ";
                     if (const auto stop = frame.type == MessageType::StopWorkers
                                               ? decode<StopWorkers>(frame)
                                               : Result<StopWorkers>(Error{Errc::Internal, ""}))
                       sent_.push_back(to + "stop " + std::to_string(stop->grace_ms));
                     else
                       sent_.push_back(to + "release");
                   }};
  WorkerHold hold_{context_.get_executor(), clock_, links_};
  bool over_ = false;
};

using Sent = std::vector<std::string>;

TEST_F(WorkerHoldTest, TheyAllWaitOnceEverySupervisorHasForgottenTheRun) {
  hold_.waits(kA);
  hold_.waits(kB);
  EXPECT_TRUE(all_wait());
}

TEST_F(WorkerHoldTest, WhatASupervisorSaidBeforeThisRunsEndDoesNotCount) {
  hold_.waits(kA);
  hold_.waits(kB);
  hold_.keeps(kB);
  std::optional<bool> answer;
  asio::co_spawn(context_, hold_.all_wait(),
                 [&](const std::exception_ptr&, bool wait) { answer = wait; });
  look();
  EXPECT_FALSE(answer);
  hold_.waits(kB);
  look();
  EXPECT_EQ(answer, true);
}

TEST_F(WorkerHoldTest, NoneWaitIfAllSupervisorsHaveEnded) {
  hold_.lost(kA);
  hold_.lost(kB);
  EXPECT_FALSE(all_wait());
  EXPECT_FALSE(hold_.holds_any());
}

TEST_F(WorkerHoldTest, TheyEndWhenTheyAreLetGoAndItWaitsForTheirEnds) {
  begin(hold_.hold(kAttempt));
  EXPECT_EQ(sent(), Sent{});
  hold_.let_go(milliseconds(1500));
  EXPECT_EQ(sent(), (Sent{"a stop 1500", "a release", "b stop 1500", "b release"}));
  hold_.lost(kA);
  look();
  EXPECT_FALSE(over_);
  hold_.lost(kB);
  look();
  EXPECT_TRUE(over_);
}

TEST_F(WorkerHoldTest, AnotherRunTakesThemWithoutAWord) {
  begin(hold_.hold(kAttempt));
  hold_.superseded();
  EXPECT_EQ(sent(), Sent{});
  EXPECT_TRUE(over_);
}

TEST_F(WorkerHoldTest, TheLeastPatienceCounts) {
  hold_.let_go(seconds(9));
  hold_.let_go(kPatience);
  hold_.let_go(seconds(7));
  EXPECT_TRUE(hold_.has_let_go());
  begin(hold_.hold(kAttempt));
  EXPECT_EQ(sent(), (Sent{"a stop 5000", "a release", "b stop 5000", "b release"}));
  hold_.superseded();
  look();
  EXPECT_TRUE(over_);
}

}  // namespace
}  // namespace train
