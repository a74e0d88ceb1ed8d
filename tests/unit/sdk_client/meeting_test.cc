// Ranks meet at a checkpoint (PauseWorkers.at_checkpoint), or make one that somebody asked for
// (RequestCheckpoint), with a fake supervisor.
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

TEST(CheckpointNow, IsMadeInTheReportThatTheLauncherChose) {
  Worker worker(0);
  worker.session->on_stop([] { return writing("asked for"); });
  worker.step();
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "ask"});
  const auto position = worker.supervisor.wait_for<CheckpointPosition>();
  EXPECT_EQ(position.request, 1u);
  EXPECT_EQ(position.reports, 1u);
  EXPECT_EQ(position.calls, 0u);
  EXPECT_TRUE(position.has_function);

  auto second = worker.step_aside();  // it waits, and is not counted as made
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "ask"});
  EXPECT_EQ(worker.supervisor.wait_for<CheckpointPosition>(1).reports, 1u);
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "make", .report_seq = 3});
  EXPECT_EQ(second.get(), "");
  EXPECT_FALSE(worker.session->checkpoint_requested());
  worker.step();
  const auto staged = worker.supervisor.wait_for<CheckpointStaged>();
  EXPECT_EQ(staged.report_seq, 3u);
  EXPECT_EQ(staged.request, 1u);
  worker.step();
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 1u);
}

TEST(CheckpointNow, AReportThatCarriesACheckpointAnyway) {
  Worker worker(2);
  worker.session->on_stop([] { return writing("asked for"); });
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "ask"});
  worker.supervisor.wait_for<CheckpointPosition>();
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "make", .report_seq = 2});
  worker.step();
  worker.step();
  EXPECT_EQ(worker.supervisor.wait_for<CheckpointStaged>().request, 1u);
  worker.step();
  worker.step();
  EXPECT_EQ(worker.supervisor.wait_for<CheckpointStaged>(1).request, 0u);
}

TEST(CheckpointNow, TheChosenCallReturnsTrue) {
  Worker worker(0);
  EXPECT_FALSE(worker.session->checkpoint_requested());
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "ask"});
  EXPECT_EQ(worker.supervisor.wait_for<CheckpointPosition>().calls, 1u);
  auto second =
      std::async(std::launch::async, [&] { return worker.session->checkpoint_requested(); });
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "make", .call = 3});
  EXPECT_FALSE(second.get());
  EXPECT_TRUE(worker.session->checkpoint_requested());
  EXPECT_FALSE(worker.session->checkpoint_requested());
  const Checkpoint checkpoint = writing("state");
  worker.session->report({{"step", 1}}, &checkpoint);
  EXPECT_EQ(worker.supervisor.wait_for<CheckpointStaged>().request, 1u);
}

TEST(CheckpointNow, ACancelledRequestLetsTheRankGoOn) {
  Worker worker(0);
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "ask"});
  EXPECT_FALSE(worker.supervisor.wait_for<CheckpointPosition>().has_function);
  auto first = worker.step_aside();
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "cancel"});
  EXPECT_EQ(first.get(), "");
  worker.step();
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 0u);
}

// A stop that ends the loop does not wait for a decision.
TEST(CheckpointNow, AStopGoesFirst) {
  Worker worker(0);
  worker.supervisor.send(RequestCheckpoint{.request = 1, .step = "ask"});
  worker.supervisor.wait_for<CheckpointPosition>();
  auto first = worker.step_aside();
  worker.supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "stopped"});
  EXPECT_EQ(first.get(), "stopped");
}

}  // namespace
}  // namespace train::sdk
