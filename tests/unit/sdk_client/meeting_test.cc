// Ranks meet at a checkpoint (PauseWorkers.at_checkpoint), with a fake supervisor.
#include <gtest/gtest.h>

#include <fstream>
#include <future>

#include "sdk/client/supervised_session.h"
#include "tests/unit/sdk_client/fake_supervisor.h"

namespace train::sdk {
namespace {

Welcome welcome() {
  Welcome w;
  w.ranks.world_size = w.ranks.local_world_size = w.ranks.node_count = 1;
  w.attempt = 3;
  w.run.run_id = w.run.run_name = "demo";
  w.run_dir = "/runs/demo";
  return w;
}

Checkpoint writing(const std::string& text) {
  return Checkpoint::from_writer(
      [text](const std::filesystem::path& folder) { std::ofstream(folder / "state") << text; });
}

/// A worker that reports steps 1, 2, …, with a checkpoint every `every` steps (0: never).
class Worker {
 public:
  explicit Worker(int every) : supervisor(welcome()), every_(every) {
    WorkerHello hello;
    hello.attempt = 3;
    hello.pid = 42;
    session = std::make_unique<SupervisedSession>(
        *join_supervisor(*connect_supervisor(supervisor.socket()), hello));
  }

  /// Wait until the worker has read every earlier frame: a collective's answer comes after them.
  void run_until_idle() {
    supervisor.answer_collectives(true);
    session->all_gather("settle", "", std::chrono::milliseconds::max());
  }
  void step() {
    const int number = ++step_;
    const Checkpoint checkpoint = writing("state");
    const bool with = every_ != 0 && number % every_ == 0;
    session->report({{"step", number}}, with ? &checkpoint : nullptr);
  }
  /// Do the next step in another thread. Return "" once report() has returned, else why it threw.
  std::future<std::string> step_aside() {
    return std::async(std::launch::async, [this]() -> std::string {
      try {
        step();
      } catch (const Stopped& why) {
        return why.what();
      }
      return "";
    });
  }

  FakeSupervisor supervisor;
  std::unique_ptr<SupervisedSession> session;

 private:
  int every_ = 0, step_ = 0;
};

PauseWorkers at_checkpoint(const std::string& step, std::uint64_t report_seq = 0) {
  return {.step = step, .report_seq = report_seq, .reason = "", .at_checkpoint = true};
}

TEST(Meeting, PausesOnlyAtReportsThatCarryACheckpoint) {
  Worker worker(3);
  worker.supervisor.send(at_checkpoint("pause"));
  worker.run_until_idle();
  worker.step();  // returns: nobody waits here
  worker.step();
  EXPECT_FALSE(worker.session->should_stop());

  auto third = worker.step_aside();
  const auto gathered = worker.supervisor.wait_for<WorkerPaused>(0);
  worker.supervisor.send(at_checkpoint("advance", 4));
  EXPECT_EQ(third.get(), "");
  worker.step();
  worker.step();
  auto sixth = worker.step_aside();
  const auto arrived = worker.supervisor.wait_for<WorkerPaused>(1);
  EXPECT_FALSE(worker.session->should_stop());
  worker.supervisor.send(
      PauseWorkers{.step = "finish", .report_seq = 0, .reason = "two nodes joined"});

  EXPECT_EQ(sixth.get(), "two nodes joined");
  EXPECT_TRUE(worker.session->should_stop());
  EXPECT_EQ(gathered.report_seq, 3u);
  EXPECT_EQ(gathered.checkpoint_seq, 1u);
  EXPECT_FALSE(gathered.arrived);
  EXPECT_EQ(arrived.report_seq, 6u);
  EXPECT_EQ(arrived.checkpoint_seq, 2u);
  EXPECT_TRUE(arrived.arrived);
}

TEST(Meeting, WithAStopFunctionPausesAtOnceAndMakesTheCheckpoint) {
  Worker worker(0);
  worker.session->on_stop([] { return writing("asked for"); });
  worker.step();
  worker.supervisor.send(at_checkpoint("pause"));
  worker.run_until_idle();

  auto second = worker.step_aside();
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(0).report_seq, 2u);
  EXPECT_FALSE(worker.session->should_stop());
  worker.supervisor.send(at_checkpoint("advance", 2));
  EXPECT_TRUE(worker.supervisor.wait_for<WorkerPaused>(1).checkpoint_pending);
  worker.supervisor.send(at_checkpoint("checkpoint", 2));

  const auto arrived = worker.supervisor.wait_for<WorkerPaused>(2);
  EXPECT_EQ(arrived.report_seq, 2u);
  EXPECT_EQ(arrived.checkpoint_seq, 1u);
  EXPECT_TRUE(arrived.arrived);
  EXPECT_EQ(worker.supervisor.wait_for<CheckpointStaged>().report_seq, 2u);
  worker.supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "r"});
  EXPECT_EQ(second.get(), "r");
}

TEST(Meeting, AStopThatComesMeanwhilePausesAtTheNextReport) {
  Worker worker(0);
  worker.supervisor.send(at_checkpoint("pause"));
  worker.run_until_idle();
  worker.step();

  worker.supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
  worker.run_until_idle();

  EXPECT_TRUE(worker.session->should_stop());
  auto second = worker.step_aside();
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(0).report_seq, 2u);
  worker.supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "stopped"});
  EXPECT_EQ(second.get(), "stopped");
}

}  // namespace
}  // namespace train::sdk
