// per_node_setup in a real supervisor, with this test as the launcher.
#include <filesystem>
#include <fstream>
#include <limits>

#include "daemon/supervisor/processes/node_setup_runner.h"
#include "lib/base/text_file.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

class NodeSetupTest : public testing::Test {
 protected:
  void order(const std::string& script, std::int64_t timeout_ms = 600'000) {
    supervisor_.attach(1);
    supervisor_.order().setup = {.command = {"sh", "-c", script},
                                 .working_dir = supervisor_.dir(),
                                 .env = {{"PATH", "/usr/bin:/bin"}, {"RANK", "7"}, {"MINE", "x"}},
                                 .job_env = {"MINE"},
                                 .run_name = "vit",
                                 .cpus_per_worker = 2,
                                 .timeout_ms = timeout_ms};
  }
  std::string path(const std::string& name) const { return supervisor_.dir() + "/" + name; }
  std::string text(const std::string& name) const { return read_text(path(name)); }
  bool wait_for_file(const std::string& name) const {
    return fakes::eventually([&] { return text(name).ends_with('\n'); });
  }

  SupervisorProcess supervisor_;
};

TEST_F(NodeSetupTest, RunsBeforeTheNodeIsPreparedInTheWorkersEnvironment) {
  order("echo out; echo err >&2; sleep 0.1; env > env; pwd > where; echo done > done");
  supervisor_.prepare(2);

  const auto ended = supervisor_.wait_for<NodeSetupEnded>();
  EXPECT_TRUE(ended.ok) << ended.error;
  EXPECT_EQ(ended.life, node_life());
  EXPECT_NE(ended.output.find("out\n"), std::string::npos) << ended.output;
  EXPECT_NE(ended.output.find("err\n"), std::string::npos) << ended.output;
  EXPECT_EQ(text("done"), "done\n");
  supervisor_.wait_for<Prepared>();

  const std::string env = "\n" + text("env");
  for (const char* there : {"\nMINE=x\n", "\nTRAINRUN_RUN_NAME=vit\n", "\nTRAINRUN_RUN_ID=r1\n",
                            "\nOMP_NUM_THREADS=2\n", "\nCUDA_VISIBLE_DEVICES=\n"})
    EXPECT_NE(env.find(there), std::string::npos) << there << env;
  for (const char* gone : {"\nRANK=", "\nTRAINRUN_SOCKET=", "\nWORLD_SIZE="})
    EXPECT_EQ(env.find(gone), std::string::npos) << gone << env;
  EXPECT_EQ(text("where"), supervisor_.dir() + "\n");
}

TEST_F(NodeSetupTest, AFailureIsAStartFailureWithItsLastLineAndEveryLauncherIsTold) {
  order("echo first; echo 'no space left' >&2; echo; exit 3");
  supervisor_.prepare(1);

  const auto ended = supervisor_.wait_for<NodeSetupEnded>();
  EXPECT_FALSE(ended.ok);
  EXPECT_EQ(ended.error, "per_node_setup: it exited with 3: no space left");
  const auto failed = supervisor_.wait_for<StartFailed>();
  EXPECT_EQ(failed.code, "unavailable");
  EXPECT_EQ(failed.message, ended.error);

  supervisor_.attach(2);

  EXPECT_EQ(supervisor_.wait_for<NodeSetupEnded>(), ended);
  EXPECT_EQ(supervisor_.wait_for<StartFailed>().message, ended.error);
}

TEST_F(NodeSetupTest, ACommandThatIsNotThereIsNamed) {
  order("");
  supervisor_.order().setup.command = {"./no_such_program"};
  supervisor_.prepare(1);

  EXPECT_FALSE(supervisor_.wait_for<NodeSetupEnded>().ok);
  const auto failed = supervisor_.wait_for<StartFailed>();
  EXPECT_EQ(failed.code, "not_found");
  EXPECT_EQ(failed.message, "per_node_setup: the command './no_such_program' is not found (" +
                                path("./no_such_program") + ")");
}

TEST_F(NodeSetupTest, OneThatTakesTooLongIsKilledWithAllThatItStarted) {
  order("echo begun; sleep 1000 & echo $! > child; wait", 1000);
  supervisor_.prepare(1);

  const auto failed = supervisor_.wait_for<StartFailed>();
  EXPECT_EQ(failed.code, "timeout");
  EXPECT_EQ(failed.message, "per_node_setup: it took longer than 1.0 s: begun");
  EXPECT_EQ(failed.hint, "raise per_node_setup.timeout");
  EXPECT_TRUE(text("child").empty() || ends(std::stoi(text("child"))));
}

TEST_F(NodeSetupTest, AHostileTimeLimitIsAnyTime) {
  for (const std::int64_t limit :
       {std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    SupervisorProcess supervisor;
    supervisor.attach(1);
    supervisor.order().setup = {.command = {"sh", "-c", "sleep 0.2"},
                                .env = {{"PATH", "/usr/bin:/bin"}},
                                .timeout_ms = limit};
    supervisor.prepare(1);
    EXPECT_EQ(supervisor.wait_for<NodeSetupEnded>().ok, limit > 0);
  }
}

TEST_F(NodeSetupTest, OfALongOutputTheNewestMiBIsKept) {
  order("yes | head -c 3000000; echo the end; exit 1");
  supervisor_.prepare(1);

  const auto ended = supervisor_.wait_for<NodeSetupEnded>();
  EXPECT_LE(ended.output.size(), 1u << 20);
  EXPECT_GT(ended.output.size(), 1u << 19);
  EXPECT_TRUE(ended.output.ends_with("y\nthe end\n"));
  EXPECT_EQ(ended.error, "per_node_setup: it exited with 1: the end");
}

TEST_F(NodeSetupTest, DoesNotRunAgainInTheLifeInWhichItHasSucceeded) {
  order("echo ran > ran; exit 3");
  supervisor_.order().setup.done_in = node_life();
  supervisor_.prepare(1);

  supervisor_.wait_for<Prepared>();
  EXPECT_FALSE(std::filesystem::exists(path("ran")));
}

TEST_F(NodeSetupTest, RunsAgainInAnotherLife) {
  order("echo ran > ran");
  supervisor_.order().setup.done_in = "another boot/1";
  supervisor_.prepare(1);

  supervisor_.wait_for<Prepared>();
  EXPECT_EQ(text("ran"), "ran\n");
}

TEST_F(NodeSetupTest, AStopEndsItAndNothingIsPreparedAnyMore) {
  order("echo begun; echo $$ > pid; exec sleep 1000");
  supervisor_.prepare(1);
  ASSERT_TRUE(wait_for_file("pid"));

  supervisor_.send(StopWorkers{.grace_ms = 0, .reason = "Ctrl-C"});

  const auto ended = supervisor_.wait_for<NodeSetupEnded>();
  EXPECT_FALSE(ended.ok);
  EXPECT_EQ(ended.error, "") << "that it was stopped is no failure of its own";
  EXPECT_EQ(ended.output, "begun\n");
  supervisor_.wait_for<GroupGone>();
  EXPECT_TRUE(ends(std::stoi(text("pid"))));
  supervisor_.attach(2);
  for (const Frame& frame : supervisor_.until(MessageType::GroupGone)) {
    EXPECT_NE(frame.type, MessageType::StartFailed);
    EXPECT_NE(frame.type, MessageType::Prepared);
  }
}

TEST_F(NodeSetupTest, WorkersOnStandbyWaitForItAndItRunsOnce) {
  order(
      "test -f go || echo waits > waits; while ! test -f go; do sleep 0.05; done; echo ran >> ran");
  supervisor_.stand_by(1, "echo up > up; exec sleep 1000");
  ASSERT_TRUE(wait_for_file("waits"));
  EXPECT_FALSE(std::filesystem::exists(path("up")));

  supervisor_.prepare(1);  // the attempt begins meanwhile
  std::ofstream(path("go")) << "\n";

  supervisor_.wait_for<Prepared>();
  EXPECT_EQ(text("ran"), "ran\n");
}

}  // namespace
}  // namespace train
