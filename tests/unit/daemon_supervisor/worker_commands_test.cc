// Commands that a launcher has the supervisor run beside workers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "lib/base/text_file.h"
#include "lib/model/worker_call.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

namespace json = boost::json;
using testing::HasSubstr;

class WorkerCommandsTest : public testing::Test {
 protected:
  void begin(int workers = 1) {
    supervisor_.attach(1);
    pids_ = supervisor_.start(std::vector<std::string>(workers, "exec sleep 1000")).workers;
  }
  void order(std::vector<std::string> command, std::vector<std::int32_t> ranks = {},
             std::uint32_t within_ms = 60'000) {
    supervisor_.send(CallWorkers{.request = 7,
                                 .ranks = std::move(ranks),
                                 .command = std::move(command),
                                 .within_ms = within_ms});
  }
  WorkerAnswered answer() { return supervisor_.wait_for<WorkerAnswered>(); }
  json::object result() {
    const WorkerAnswered answered = answer();
    EXPECT_EQ(answered.error, "");
    EXPECT_EQ(answered.request, 7u);
    return json::parse(answered.result).as_object();
  }
  json::object run(const std::string& line) {
    order({"sh", "-c", line});
    return result();
  }

  SupervisorProcess supervisor_;
  decltype(WorkersStarted{}.workers) pids_;
};

TEST_F(WorkerCommandsTest, OneRunsInTheWorkersFolderWithItsEnvironment) {
  begin();
  const json::object end =
      run("echo rank $RANK; pwd; echo \"$TORCHELASTIC_ERROR_FILE$TRAINRUN_SOCKET\"; "
          "echo $TRAINRUN_WORKER_PID; echo trouble >&2; exit 3");

  EXPECT_EQ(end.at("stdout").as_string(),
            fmt::format("rank 0\n{}\n\n{}\n", supervisor_.dir(), pids_.at(0).pid));
  EXPECT_EQ(end.at("stderr").as_string(), "trouble\n");
  EXPECT_EQ(end.at("exit_code").as_int64(), 3);
  EXPECT_FALSE(end.contains("cut"));
  EXPECT_FALSE(end.contains("timed_out"));
}

TEST_F(WorkerCommandsTest, EachRankAnswersForItself) {
  begin(2);
  order({"sh", "-c", "exit $RANK"});
  std::map<int, std::int64_t> codes;
  for (int i = 0; i < 2; ++i) {
    const WorkerAnswered one = answer();
    codes[one.rank] = json::parse(one.result).at("exit_code").as_int64();
  }
  EXPECT_EQ(codes, (std::map<int, std::int64_t>{{0, 0}, {1, 1}}));

  order({"true"}, {1});
  EXPECT_EQ(answer().rank, 1);
  order({"true"}, {5});
  EXPECT_EQ(answer().error, "the node has no such rank");
  order({"no-such-program"}, {0});
  EXPECT_THAT(answer().error, HasSubstr("no-such-program"));
}

TEST_F(WorkerCommandsTest, OneThatTakesTooLongIsKilledAndItsOutputComes) {
  begin();
  order({"sh", "-c", "echo first; exec sleep 1000"}, {}, 2000);
  const json::object end = result();

  EXPECT_EQ(end.at("stdout").as_string(), "first\n");
  EXPECT_EQ(end.at("signal").as_string(), "SIGKILL");
  EXPECT_TRUE(end.contains("timed_out"));
}

TEST_F(WorkerCommandsTest, OutputOfAnySizeAndKindFits) {
  begin();
  const json::object text = run("yes | head -c 1000000");
  EXPECT_EQ(text.at("stdout").as_string().size(), kCommandOutputBytesMax);
  EXPECT_TRUE(text.contains("cut"));

  const json::object bytes = run("head -c 300000 /dev/zero; head -c 300000 /dev/urandom >&2");
  EXPECT_GT(bytes.at("stdout").as_string().size(), 20'000u);
  EXPECT_TRUE(bytes.contains("cut"));
}

TEST_F(WorkerCommandsTest, KnownSecretsAreHiddenEvenWhereTheOutputIsCut) {
  supervisor_.start_environment() = {{"HF_TOKEN", "hf_abcdefgh"}};
  begin();
  EXPECT_EQ(run("echo it is $HF_TOKEN").at("stdout").as_string(), "it is <redacted:HF_TOKEN>\n");
  const json::object text =
      run(fmt::format("yes 1234567 | head -c {}; echo $HF_TOKEN", kCommandOutputBytesMax - 4));
  EXPECT_EQ(text.at("stdout").as_string().find("hf_"), json::string::npos);
}

TEST_F(WorkerCommandsTest, NoneOutlivesItsAttempt) {
  begin();
  const std::string file = supervisor_.dir() + "/pid";
  order({"sh", "-c", "echo $$ >" + file + "; exec sleep 1000"});
  ASSERT_TRUE(fakes::eventually([&] { return std::filesystem::exists(file); }));
  pid_t pid = 0;
  ASSERT_TRUE(fakes::eventually([&] { return bool(std::ifstream(file) >> pid); }));

  supervisor_.send(StopWorkers{.grace_ms = 0});
  supervisor_.wait_for<GroupGone>();
  EXPECT_EQ(result().at("signal").as_string(), "SIGKILL");
  EXPECT_TRUE(fakes::eventually([&] { return ::kill(pid, 0) != 0; }));
  order({"true"});
  EXPECT_EQ(answer().kind, kCallLost);
}

/// Return how many processes the supervisor has started that run now.
int children_of(pid_t parent) {
  const std::string mark = fmt::format("\nPPid:\t{}\n", parent);
  int found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc"))
    found += read_text(entry.path() / "status").find(mark) != std::string::npos ? 1 : 0;
  return found;
}

TEST_F(WorkerCommandsTest, OfManyOnlySoManyRunAtATime) {
  begin();
  const int before = children_of(supervisor_.pid());
  const std::string go = supervisor_.dir() + "/go";
  for (int i = 0; i < 20; ++i)
    order({"sh", "-c", "while [ ! -e " + go + " ]; do sleep 0.02; done"});
  order({"true"}, {5});
  EXPECT_EQ(answer().error, "the node has no such rank");  // so it has read all the others
  EXPECT_EQ(children_of(supervisor_.pid()) - before, 16);

  std::ofstream(go) << "go";
  for (int i = 0; i < 20; ++i) EXPECT_EQ(result().at("exit_code").as_int64(), 0);
}

}  // namespace
}  // namespace train
