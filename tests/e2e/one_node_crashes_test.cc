// A worker that crashes has a stack, although no core file is written: the failure's text says in
// which function, and the summary shows the frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <boost/json.hpp>
#include <csignal>
#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class Crash : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || !defined(__x86_64__)
    GTEST_SKIP() << "SKIPPED: the sanitizer handles crashes, or the processor is another";
#endif
  }
  /// Run the worker until it crashes. Return what train-run printed.
  std::string crash(const std::string& how, int code, const std::string& more = "",
                    const std::string& arguments = "", const std::string& run_config = "") {
    const std::string job =
        cluster.job("job",
                    "command: [" + program("crashing_worker") + arguments +
                        "]\ntrain_loop_config: {how: " + how + ", rank: 1}\n" +
                        "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n" + more,
                    run_config);
    Process& run = cluster.train_run({job});
    EXPECT_EQ(run.wait(), code) << run.out() << run.err();
    return run.out() + run.err();
  }
  std::string cause() const { return text_of(cluster.exit_json("job"), "cause"); }
  std::string stack() const {
    const auto error = boost::json::parse(
        cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0001/error.json"));
    return std::string(error.at("message").at("extraInfo").at("py_callstack").as_string());
  }
  /// Return "crashing_worker.cc:25" of the line that has the comment.
  static std::string line_of(const std::string& comment) {
    const std::string source = read_file(TRAIN_SOURCE_DIR "/tests/e2e/programs/crashing_worker.cc");
    const auto end =
        source.begin() + static_cast<std::ptrdiff_t>(source.find("// crash: " + comment));
    return "crashing_worker.cc:" + std::to_string(1 + std::count(source.begin(), end, '\n'));
  }

  Cluster cluster;
};

TEST_F(Crash, OfANullPointerNamesTheFunctionAndTheLine) {
  const std::string said = crash("pointer", 128 + SIGSEGV);

  EXPECT_THAT(cause(), MatchesRegex("rank 1 on .* was killed by SIGSEGV .segmentation fault. in "
                                    "Layer::forward .crashing_worker.cc:[0-9]+. <- Model::forward "
                                    ".crashing_worker.cc:[0-9]+. <- .*"));
  EXPECT_THAT(cause(), HasSubstr("Layer::forward (" + line_of("pointer") + ")"));
  EXPECT_THAT(said, HasSubstr(cause()));
  EXPECT_THAT(said, HasSubstr("trainrun: rank 1 was hit by SIGSEGV\n"));
  EXPECT_THAT(said, Not(HasSubstr("native stack"))) << "the summary has it, with names";
  EXPECT_THAT(stack(), MatchesRegex("#0 .*Layer::forward.int. const .*crashing_worker.cc:.*\n"
                                    "#1 .*Model::forward.int. const .*crashing_worker.cc:.*"));
  EXPECT_THAT(stack(), HasSubstr("main "));
}

TEST_F(Crash, InAThreadNamesTheThreadsFunctions) {
  crash("thread", 128 + SIGSEGV);

  EXPECT_THAT(cause(),
              HasSubstr("in Layer::forward (" + line_of("pointer") + ") <- Model::forward ("));
}

TEST_F(Crash, OfAFullStackHasAStackToo) {
  crash("overflow", 128 + SIGSEGV);

  EXPECT_THAT(cause(), HasSubstr("in recurse (" + line_of("overflow").substr(0, 18)));
}

TEST_F(Crash, OfAnAbortNamesWhoCalledIt) {
  crash("abort", 128 + SIGABRT);

  EXPECT_THAT(cause(), HasSubstr("SIGABRT (abort: a failed assertion or an uncaught exception) in "
                                 "check (" +
                                 line_of("abort") + ")"));
}

TEST_F(Crash, OfADivisionByZeroNamesTheLine) {
  crash("divide", 128 + SIGFPE);

  EXPECT_THAT(cause(), HasSubstr("in divide (" + line_of("divide") + ")"));
}

TEST_F(Crash, OfAnUncaughtExceptionShowsWhereItWasThrown) {
  const std::string said = crash("throw", 128 + SIGABRT);

  EXPECT_THAT(cause(), Not(HasSubstr(" in "))) << "the stack of abort() would mislead";
  EXPECT_THAT(stack(), HasSubstr("throw_in_thread"));
  EXPECT_THAT(said, HasSubstr("row 7 of 5"));
}

TEST_F(Crash, IsLeftToTheProgramsOwnHandler) {
  const std::string said = crash("pointer", 5, "", ", --own-handler");

  EXPECT_THAT(said, HasSubstr("own handler"));
  EXPECT_THAT(cause(), HasSubstr("exited with code 5"));
}

TEST_F(Crash, OfAForkedChildIsNotTheWorkers) {
  const std::string said = crash("child", 128 + SIGKILL);

  EXPECT_THAT(said, HasSubstr("child killed by 11"));
  EXPECT_THAT(cause(), Not(HasSubstr(" in ")));
  EXPECT_EQ(stack(), "");
}

TEST_F(Crash, IsNotLookedIntoWhereTheSpecSaysSo) {
  crash("pointer", 128 + SIGSEGV, "env: {TRAINRUN_CRASH_HANDLER: '0'}\n");

  EXPECT_THAT(cause(), MatchesRegex("rank 1 on .* was killed by SIGSEGV .segmentation fault."));
}

TEST_F(Crash, StillLeavesACoreFileWhereOneIsAllowed) {
  if (read_file("/proc/sys/kernel/core_pattern").starts_with('|'))
    GTEST_SKIP() << "SKIPPED: kernel.core_pattern hands core files to a program";
  const std::string said =
      crash("pointer", 128 + SIGSEGV, "", "", "  rlimits: {core: 1000000000}\n");

  EXPECT_THAT(cause(), HasSubstr("core dumped"));
  const auto error = boost::json::parse(
      cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0001/error.json"));
  const std::string core(error.at("core").as_string());
  EXPECT_TRUE(core.starts_with(cluster.run_dir("job") + "/attempts/000/cores/core.rank-0001."))
      << core;
  EXPECT_TRUE(std::filesystem::is_regular_file(core)) << core;
  EXPECT_THAT(said, HasSubstr("core dump    " + core + "\n"));
  EXPECT_THAT(cause(), HasSubstr("in Layer::forward ("));
}

TEST_F(Crash, WithoutTheSdksHandlerItsCoreFileHasTheStack) {
  if (read_file("/proc/sys/kernel/core_pattern").starts_with('|'))
    GTEST_SKIP() << "SKIPPED: kernel.core_pattern hands core files to a program";
  crash("pointer", 128 + SIGSEGV, "env: {TRAINRUN_CRASH_HANDLER: '0'}\n", "",
        "  rlimits: {core: 1000000000}\n");

  EXPECT_THAT(cause(), HasSubstr("in Layer::forward ("));
  EXPECT_THAT(stack(), MatchesRegex("#0 .*Layer::forward.int. const .*crashing_worker.cc:.*\n"
                                    "#1 .*Model::forward.int. const .*crashing_worker.cc:.*"));
}

TEST_F(Crash, OfAllRanksAtOnceLeavesAStackOfEach) {
  const std::string job =
      cluster.job("job", "command: [" + program("crashing_worker") +
                             "]\ntrain_loop_config: {how: pointer, rank: -1}\n"
                             "scaling_config: {num_workers: 8, resources_per_worker: {CPU: 0}}\n");
  Process& run = cluster.train_run({job});
  EXPECT_EQ(run.wait(), 128 + SIGSEGV) << run.err();

  int crashed = 0;
  const std::filesystem::path ranks = cluster.run_dir("job") + "/attempts/000/ranks";
  for (const auto& rank : std::filesystem::directory_iterator(ranks)) {
    const std::string error = read_file(rank.path() / "error.json");
    // One that was stopped meanwhile may have said so, but did not end by it.
    if (!contains(error, R"("signal": "SIGSEGV")")) continue;
    ++crashed;
    EXPECT_THAT(error, HasSubstr("Layer::forward")) << rank.path();
  }
  EXPECT_GE(crashed, 1);
}

}  // namespace
}  // namespace train::e2e
