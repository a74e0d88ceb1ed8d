// What captures leave of their targets: everything as it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "lib/stacks/thread_capture.h"
#include "tests/unit/lib_stacks/target.h"

namespace train::stacks_test {
namespace {

using testing::HasSubstr;

TEST(Undisturbed, CallsDoNotNoticeTwoHundredCaptures) {
  Target target({"calls"});

  for (int i = 0; i < 200; ++i) ASSERT_TRUE(capture_process(target.pid(), soon()).has_value());

  EXPECT_TRUE(target.goes_on());
  EXPECT_EQ(target.page().interrupted, 0u);
  EXPECT_TRUE(target.ends_well());
}

TEST(Undisturbed, NoSignalIsLost) {
  Target target({"signals"});
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> sent{0};
  std::thread sender([&] {
    while (!done) {
      // Not more than fit into its queue, so that kill() means "will arrive".
      if (sent - target.page().signals < 50 && ::kill(target.pid(), SIGRTMIN) == 0) ++sent;
    }
  });

  for (int i = 0; i < 1000; ++i) (void)capture_process(target.pid(), soon());
  done = true;
  sender.join();

  EXPECT_TRUE(fakes::eventually([&] { return target.page().signals == sent; }));
  EXPECT_TRUE(target.ends_well());
}

TEST(Undisturbed, AStoppedProcessIsCapturedAndStaysStopped) {
  Target target({"sleep"});
  ::kill(target.pid(), SIGSTOP);
  ASSERT_TRUE(fakes::eventually([&] { return target.state() == 'T'; }));

  const ProcessStacks stacks = stacks_of(target);

  EXPECT_EQ(stacks.threads.at(0).facts.state, 'T');
  EXPECT_NE(frame_named(stacks.threads.at(0), "main"), nullptr);
  ASSERT_TRUE(fakes::eventually([&] { return target.state() == 'T'; }));
  const std::uint64_t turns = target.page().turns;
  (void)stacks_of(target);
  EXPECT_EQ(target.page().turns, turns);
  ::kill(target.pid(), SIGCONT);
  EXPECT_TRUE(target.goes_on());
  EXPECT_TRUE(target.ends_well());
}

TEST(Undisturbed, WhoeverTracesItKeepsIt) {
  Target target({"read"});
  ASSERT_TRUE(target.reaches("read"));
  Target debugger({"trace", std::to_string(target.pid())});

  const ProcessStacks stacks = stacks_of(target);

  const ThreadFacts& facts = stacks.threads.at(0).facts;
  EXPECT_THAT(facts.note, HasSubstr("process " + std::to_string(debugger.pid())));
  EXPECT_THAT(facts.note, HasSubstr("traces it, as a debugger does"));
  EXPECT_EQ(facts.syscall, "read");
  EXPECT_EQ(tracer_of(target.pid(), target.pid()), debugger.pid());
  EXPECT_TRUE(debugger.ends_well());
  EXPECT_NE(frame_named(stacks_of(target).threads.at(0), "main"), nullptr);
}

TEST(Undisturbed, AThreadThatCannotBeInterruptedTellsWhereItWaits) {
  Target target({"vfork"});
  ASSERT_TRUE(target.reaches("vfork"));
  ASSERT_TRUE(fakes::eventually([&] { return target.state() == 'D'; }));

  const auto began = std::chrono::steady_clock::now();
  const auto capture = capture_process(target.pid(), soon());

  ASSERT_TRUE(capture.has_value());
  const ThreadFacts& facts = capture->threads.at(0).facts;
  EXPECT_EQ(facts.state, 'D');
  EXPECT_EQ(facts.syscall, "vfork");
  EXPECT_NE(facts.wchan, "");
  EXPECT_EQ(facts.note, "not stopped: the kernel does not interrupt its call");
  EXPECT_LT(std::chrono::steady_clock::now() - began, seconds{5});
  EXPECT_TRUE(target.ends_well());
}

// A parent that polls for the end of its child takes the news of our stops away. It sees a stopped
// child then, which has not ended.
TEST(Undisturbed, AParentThatPollsForTheEndDoesNotHinderUs) {
  Target target({"calls"});
  std::atomic<bool> done{false};
  std::atomic<int> ends{0};
  std::thread parent([&] {
    for (int status = 0; !done; std::this_thread::yield())
      if (::waitpid(target.pid(), &status, WNOHANG) == target.pid() && !WIFSTOPPED(status)) ++ends;
  });

  for (int i = 0; i < 100; ++i) {
    const auto capture = capture_process(target.pid(), soon());
    ASSERT_TRUE(capture.has_value());
    for (const ThreadCapture& thread : capture->threads) EXPECT_EQ(thread.registers.size(), 17u);
  }
  done = true;
  parent.join();

  EXPECT_EQ(ends, 0);
  EXPECT_TRUE(target.goes_on());
  EXPECT_TRUE(target.ends_well());
}

TEST(Undisturbed, ThreadsMayComeAndGo) {
  Target target({"churn"});

  for (int i = 0; i < 50; ++i) {
    const auto capture =
        capture_process(target.pid(), std::chrono::steady_clock::now() + milliseconds{500});
    ASSERT_TRUE(capture.has_value());
    EXPECT_EQ(capture->threads.at(0).facts.tid, target.pid());
  }

  EXPECT_TRUE(target.goes_on());
  EXPECT_TRUE(target.ends_well());
}

TEST(Undisturbed, ATargetThatIsKilledMeanwhileEndsForItsParent) {
  for (int i = 0; i < 20; ++i) {
    Target target({i % 2 == 0 ? "many" : "churn"});
    const pid_t pid = target.pid();
    std::thread killer([pid, i] {
      for (int turn = 0; turn < i * 50; ++turn) std::this_thread::yield();
      ::kill(pid, SIGKILL);
    });

    (void)capture_process(pid, soon());
    (void)capture_process(pid, soon());
    killer.join();

    const int status = target.end();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
}

TEST(Undisturbed, TheTargetGoesOnIfWeAreKilled) {
  Target target({"calls"});
  for (int i = 0; i < 20; ++i) {
    const pid_t we = ::fork();
    if (we == 0) {
      while (true) (void)capture_process(target.pid(), soon());
    }
    const std::uint64_t turns = target.page().turns;
    EXPECT_TRUE(fakes::eventually([&] { return target.page().turns > turns + 3; }));
    ::kill(we, SIGKILL);
    ASSERT_EQ(::waitpid(we, nullptr, 0), we);

    EXPECT_TRUE(target.goes_on());
    EXPECT_EQ(tracer_of(target.pid(), target.pid()), 0);
  }
  EXPECT_TRUE(target.ends_well());
}

TEST(Undisturbed, LimitsAreKeptAndTold) {
  Target target({"many"});
  ASSERT_TRUE(fakes::eventually([&] { return threads_of(target.pid())->size() == 65; }));

  const auto few = capture_process(target.pid(), soon(), {.threads_max = 5});
  const auto small =
      capture_process(target.pid(), soon(), {.stack_bytes_max = 4096, .process_bytes_max = 16384});

  ASSERT_TRUE(few.has_value() && small.has_value());
  EXPECT_EQ(few->threads.size(), 5u);
  EXPECT_THAT(few->notes.at(0), HasSubstr("60 threads were left out"));
  std::size_t bytes = 0;
  for (const ThreadCapture& thread : small->threads) {
    EXPECT_LE(thread.stack.size(), 4096u);
    bytes += thread.stack.size();
  }
  EXPECT_EQ(small->threads.size(), 65u);
  EXPECT_LE(bytes, 16384u);
  EXPECT_THAT(small->threads.back().facts.note, HasSubstr("KiB of its stack were copied"));
}

TEST(Undisturbed, AProcessThatIsGoneIsAnError) {
  EXPECT_EQ(capture_process(1 << 22, soon()).error().code, Errc::NotFound);
}

}  // namespace
}  // namespace train::stacks_test
