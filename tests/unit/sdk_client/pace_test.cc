// A worker whose reports wait for acknowledgements (JobContext::report_window), with a fake
// supervisor.
#include <gtest/gtest.h>
#include <train/serve.h>

#include <future>

#include "tests/unit/sdk_client/supervised_worker.h"

namespace train::sdk {
namespace {

using namespace std::chrono_literals;

struct Paced {
  explicit Paced(std::uint32_t window)
      : worker([&] {
          Welcome w = welcome();
          w.run.report_window = window;
          return w;
        }()) {
    worker.supervisor.ack_reports(false);
  }
  /// Report in another thread. Return "" once report() has returned, else why it threw.
  std::future<std::string> report(bool with_checkpoint = false) {
    return std::async(std::launch::async, [this, with_checkpoint]() -> std::string {
      try {
        const Checkpoint checkpoint = writing("state");
        worker.session->report({{"loss", 1}}, with_checkpoint ? &checkpoint : nullptr);
        return "";
      } catch (const Stopped& why) {
        return why.what();
      } catch (const Failure& why) {
        return why.kind();
      }
    });
  }
  void acknowledge(std::uint64_t report_seq) {
    worker.supervisor.send(AckReports{{{.rank = 0, .report_seq = report_seq}}});
  }
  static bool waits(const std::future<std::string>& report) {
    return report.wait_for(50ms) == std::future_status::timeout;
  }
  Worker worker;
};

TEST(Pace, OfOneHoldsEachReportUntilItIsAcknowledged) {
  Paced paced(1);
  auto first = paced.report();
  paced.worker.supervisor.wait_for_reports(1);
  EXPECT_TRUE(paced.waits(first));
  paced.acknowledge(1);
  EXPECT_EQ(first.get(), "");
  auto second = paced.report(/*with_checkpoint=*/true);
  paced.worker.supervisor.wait_for<CheckpointStaged>();
  EXPECT_TRUE(paced.waits(second));
  paced.acknowledge(2);
  EXPECT_EQ(second.get(), "");
}

TEST(Pace, OfThreeLetsTwoReportsBeAhead) {
  Paced paced(3);
  EXPECT_EQ(paced.report().get(), "");
  EXPECT_EQ(paced.report().get(), "");
  auto third = paced.report();
  EXPECT_TRUE(paced.waits(third));
  paced.acknowledge(1);
  EXPECT_EQ(third.get(), "");
}

TEST(Pace, CallsRunWhileAReportWaits) {
  Paced paced(1);
  std::thread::id ran;
  serve("where", [&](const Value&) {
    ran = std::this_thread::get_id();
    paced.worker.session->report({{"from", "a call"}}, nullptr);  // waits for nobody
    paced.worker.supervisor.wait_for_reports(2);                  // and is sent at once
    return Value(true);
  });
  std::thread::id reported;
  auto first = std::async(std::launch::async, [&] {
    reported = std::this_thread::get_id();
    paced.worker.session->report({{"loss", 1}}, nullptr);
  });
  paced.worker.supervisor.wait_for_reports(1);
  paced.worker.supervisor.send(CallWorkers{.request = 1, .name = "where", .argument = "null"});
  EXPECT_EQ(paced.worker.supervisor.wait_for<WorkerAnswered>().result, "true");
  EXPECT_EQ(first.wait_for(50ms), std::future_status::timeout);
  paced.acknowledge(1);
  first.get();
  EXPECT_EQ(ran, reported);
}

TEST(Pace, AStopMeetsTheRankAtTheReportThatWaits) {
  Paced paced(1);
  paced.worker.session->on_stop([] { return writing("stop"); });
  auto first = paced.report();
  paced.worker.supervisor.wait_for_reports(1);
  paced.worker.supervisor.send(PauseWorkers{.step = "pause"});
  EXPECT_EQ(paced.worker.supervisor.wait_for<WorkerPaused>(0).report_seq, 1u);
  paced.worker.supervisor.send(PauseWorkers{.step = "advance", .report_seq = 1});
  paced.worker.supervisor.send(PauseWorkers{.step = "checkpoint", .report_seq = 1});
  paced.worker.supervisor.wait_for<CheckpointStaged>();
  paced.worker.supervisor.send(PauseWorkers{.step = "finish", .reason = "its driver asked it to"});
  EXPECT_EQ(first.get(), "its driver asked it to");
}

TEST(Pace, HoldsAReportAtWhichACheckpointWasAskedFor) {
  Paced paced(1);
  paced.worker.session->on_stop([] { return writing("asked for"); });
  paced.worker.supervisor.send(RequestCheckpoint{.request = 5, .step = "ask"});
  paced.worker.supervisor.wait_for<CheckpointPosition>();
  paced.worker.supervisor.send(RequestCheckpoint{.request = 5, .step = "make", .report_seq = 1});
  auto first = paced.report();
  EXPECT_EQ(paced.worker.supervisor.wait_for<CheckpointStaged>().request, 5u);
  EXPECT_TRUE(paced.waits(first));
  paced.acknowledge(1);
  EXPECT_EQ(first.get(), "");
}

TEST(Pace, HoldsWhileRanksMeetAtACheckpointElsewhere) {
  Paced paced(1);
  auto first = paced.report();
  paced.worker.supervisor.wait_for_reports(1);
  paced.worker.supervisor.send(PauseWorkers{.step = "pause", .at_checkpoint = true});
  EXPECT_TRUE(paced.waits(first)) << "it carries no checkpoint: they meet later";
  paced.acknowledge(1);
  EXPECT_EQ(first.get(), "");
}

TEST(Pace, NobodyWaitsForASupervisorThatIsGone) {
  Paced paced(1);
  auto first = paced.report();
  paced.worker.supervisor.wait_for_reports(1);
  paced.worker.supervisor.hang_up();
  EXPECT_EQ(first.get(), "unavailable");
}

}  // namespace
}  // namespace train::sdk
