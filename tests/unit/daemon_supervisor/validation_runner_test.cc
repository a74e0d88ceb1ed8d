// A checkpoint's validation beside the workers, and what the launcher hears of it.
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "lib/base/text_file.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

class ValidationRunnerTest : public testing::Test {
 protected:
  void SetUp() override {
    supervisor_.attach(1);
    supervisor_.prepare(1);
    StartWorkers start{.run = {.run_id = "r1", .run_name = "vit"}, .workers = {WorkerRanks{}}};
    start.working_dir = supervisor_.dir();
    start.env = {{"PATH", "/usr/bin:/bin"}};
    start.command = {"sh", "-c", R"(test -z "$TRAINRUN_VALIDATE" && exec sleep 1000; exit 9)"};
    start.run.config_json = R"({"lr": 1})";
    start.run.datasets_json = R"({"train": "d"})";
    supervisor_.send(start);
    supervisor_.wait_for<WorkersStarted>();
  }
  void ask(std::uint64_t checkpoint, const std::string& script, std::int64_t timeout_ms = 600'000) {
    RunValidation order;
    order.checkpoint = checkpoint;
    order.dir = "/runs/vit/checkpoints/checkpoint_000007";
    if (!script.empty()) order.command = {"sh", "-c", script};
    order.timeout_ms = timeout_ms;
    supervisor_.send(order);
  }
  ValidationEnded end_of(const std::string& script) {
    ask(7, script);
    auto ended = supervisor_.wait_for<ValidationEnded>();
    EXPECT_EQ(ended.checkpoint, 7u);
    return ended;
  }
  std::string path(const std::string& name) const { return supervisor_.dir() + "/" + name; }
  /// Return whether the process that wrote its pid to this file has ended.
  bool is_gone(const std::string& name) { return ends(std::stoi(read_text(path(name)))); }
  bool wait_for_file(const std::string& name) {
    return fakes::eventually([&] { return read_text(path(name)).ends_with('\n'); });
  }

  SupervisorProcess supervisor_;
};

TEST_F(ValidationRunnerTest, TheResultIsWhatTheProgramLeavesAndItsOutputComesWithIt) {
  const auto ended = end_of(
      R"(echo out; echo err >&2; printf '{"loss": 1}' > $TRAINRUN_RESULT_FILE
         echo $TRAINRUN_CHECKPOINT_DIR; cat $TRAINRUN_SPEC)");

  EXPECT_EQ(ended.status, "validated");
  EXPECT_EQ(ended.result_json, R"({"loss": 1})");
  EXPECT_EQ(ended.error, "");
  EXPECT_GE(ended.took_ms, 0);
  EXPECT_LT(ended.took_ms, 600'000);
  for (const char* line :
       {"out\n", "err\n", "/runs/vit/checkpoints/checkpoint_000007\n",
        R"({"train_loop_config": {"lr": 1}, "metadata": {}, "datasets": {"train": "d"}})"})
    EXPECT_NE(ended.output.find(line), std::string::npos) << line << ended.output;
}

TEST_F(ValidationRunnerTest, WithoutACommandOfItsOwnItIsThatOfTheWorkers) {
  EXPECT_EQ(end_of("").error, "it exited with 9");
}

TEST_F(ValidationRunnerTest, AnEndThatIsNoneOfTheProgramsMakingIsSaidAsItWas) {
  const auto failed = end_of("exit 3");
  EXPECT_EQ(failed.status, "failed");
  EXPECT_EQ(failed.error, "it exited with 3");
  EXPECT_EQ(failed.result_json, "");
  ask(8, "kill -KILL $$");
  EXPECT_EQ(supervisor_.wait_for<ValidationEnded>().error, "it was killed by SIGKILL");
  ask(9, "kill -40 $$");
  EXPECT_EQ(supervisor_.wait_for<ValidationEnded>().error, "it was killed by signal 40");
}

TEST_F(ValidationRunnerTest, WhatTheProgramSaysOfItsFailureIsToldToo) {
  EXPECT_EQ(end_of(R"(printf '{"message": "boom"}' > $TORCHELASTIC_ERROR_FILE; exit 3)").error,
            "it exited with 3: boom");
  ask(8, R"(printf '{"message": ""}' > $TORCHELASTIC_ERROR_FILE; exit 3)");
  EXPECT_EQ(supervisor_.wait_for<ValidationEnded>().error, "it exited with 3");
}

TEST_F(ValidationRunnerTest, AProgramThatLeavesNoResultHasFailed) {
  const auto none = end_of("exit 0");
  EXPECT_EQ(none.status, "failed");
  EXPECT_EQ(none.error, "it exited with 0, and wrote nothing to $TRAINRUN_RESULT_FILE");

  ask(8, "head -c 65536 /dev/zero > $TRAINRUN_RESULT_FILE");
  const auto largest = supervisor_.wait_for<ValidationEnded>();
  EXPECT_EQ(largest.status, "validated");
  EXPECT_EQ(largest.result_json.size(), 65536u);

  ask(9, "head -c 65537 /dev/zero > $TRAINRUN_RESULT_FILE");
  const auto too_large = supervisor_.wait_for<ValidationEnded>();
  EXPECT_EQ(too_large.status, "failed");
  EXPECT_EQ(too_large.result_json, "");
  EXPECT_NE(too_large.error.find("result.json"), std::string::npos) << too_large.error;
}

TEST_F(ValidationRunnerTest, OneThatTakesTooLongIsKilledWithAllThatItStarted) {
  ask(7, "echo $$ > first; sleep 1000 & echo $! > second; wait", 2000);

  const auto ended = supervisor_.wait_for<ValidationEnded>();

  EXPECT_EQ(ended.status, "timeout");
  EXPECT_EQ(ended.error, "it took longer than 2.0 s");
  for (const char* name : {"first", "second"}) {
    EXPECT_TRUE(read_text(path(name)).empty() || is_gone(name)) << name;
  }
}

TEST_F(ValidationRunnerTest, WhatItLeavesBehindIsKilled) {
  const auto ended =
      end_of("sleep 1000 > /dev/null 2>&1 & echo $! > left; printf 1 > $TRAINRUN_RESULT_FILE");

  EXPECT_EQ(ended.status, "validated");
  EXPECT_TRUE(is_gone("left"));
}

TEST_F(ValidationRunnerTest, OneThatCannotBeStartedHasFailed) {
  RunValidation order;
  order.checkpoint = 7;
  order.dir = "/runs/vit/checkpoints/checkpoint_000007";
  order.command = {"no-such-program"};
  supervisor_.send(order);

  const auto ended = supervisor_.wait_for<ValidationEnded>();

  EXPECT_EQ(ended.checkpoint, 7u);
  EXPECT_EQ(ended.status, "failed");
  EXPECT_EQ(ended.error,
            "the command 'no-such-program' is not in PATH (give its path, or set PATH in "
            "`env`)");
}

TEST_F(ValidationRunnerTest, TheSameOneAskedForAgainGoesOnAndItsEndIsSaidToEveryLauncher) {
  const std::string script = "echo begun >> begun; read go < go; printf 1 > $TRAINRUN_RESULT_FILE";
  ASSERT_EQ(::mkfifo(path("go").c_str(), 0600), 0);
  ask(7, script);
  ASSERT_TRUE(wait_for_file("begun"));
  ask(7, script);
  supervisor_.attach(2);
  supervisor_.wait_for<AttemptSnapshot>();  // the second order is handled

  std::ofstream(path("go")) << "go\n";

  EXPECT_EQ(supervisor_.wait_for<ValidationEnded>().status, "validated");
  ask(7, script);
  EXPECT_EQ(supervisor_.wait_for<ValidationEnded>().result_json, "1");
  supervisor_.attach(3);
  EXPECT_EQ(supervisor_.wait_for<ValidationEnded>().checkpoint, 7u);
  EXPECT_EQ(read_text(path("begun")), "begun\n");
}

TEST_F(ValidationRunnerTest, AnotherOneTakesItsPlaceAndNothingIsSaidOfTheFirst) {
  ask(7, "echo $$ > first; exec sleep 1000");
  ASSERT_TRUE(wait_for_file("first"));

  ask(8, "printf 1 > $TRAINRUN_RESULT_FILE");

  const auto ended = supervisor_.wait_for<ValidationEnded>();
  EXPECT_EQ(ended.checkpoint, 8u);
  EXPECT_EQ(ended.status, "validated");
  EXPECT_TRUE(is_gone("first"));
}

TEST_F(ValidationRunnerTest, ItEndsWithItsSupervisor) {
  ask(7, "echo $$ > first; exec sleep 1000");
  ASSERT_TRUE(wait_for_file("first"));

  supervisor_.send(StopWorkers{.grace_ms = 0, .reason = "Ctrl-C"});
  supervisor_.wait_for<GroupGone>();
  supervisor_.send(ReleaseAttempt{});

  EXPECT_EQ(supervisor_.wait_for_end(), 0);
  EXPECT_TRUE(is_gone("first"));
}

TEST_F(ValidationRunnerTest, OfVeryMuchOutputTheNewestComes) {
  const auto ended = end_of("head -c 1500000 /dev/zero; echo end");

  EXPECT_EQ(ended.output.size(), 1u << 20);
  EXPECT_TRUE(ended.output.ends_with(std::string(1, '\0') + "end\n"));
}

}  // namespace
}  // namespace train
