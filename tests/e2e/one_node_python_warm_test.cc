// trainrun.WarmTrainer: several runs by the same workers. It loads the libtrainrun.so of the build.
#include <filesystem>

#include "tests/e2e/warm_drivers.h"

namespace train::e2e {
namespace {

class WarmPythonDrivers : public WarmDrivers {
 protected:
  Process& drive(const std::vector<std::string>& words) override {
    std::vector<std::string> argv{"python3", TRAIN_SOURCE_DIR "/tests/e2e/programs/warm_driver.py"};
    argv.insert(argv.end(), words.begin(), words.end());
    auto env = environment();
    env.insert({{"TRAINRUN_LIBRARY", LIBTRAINRUN},
                {"PYTHONPATH", TRAIN_SOURCE_DIR "/sdk/python"},
                {"PYTHONDONTWRITEBYTECODE", "1"}});
    return cluster.start(argv, {.env = env, .prefix = {}, .cwd = ""});
  }
};

TEST_F(WarmPythonDrivers, TheSameWorkersDoSeveralRuns) { several_runs(); }
TEST_F(WarmPythonDrivers, ARunThatFailedIsFollowedByNewWorkers) { a_failed_run(); }
TEST_F(WarmPythonDrivers, AWorkerThatDiesBetweenRunsIsReplaced) {
  a_worker_that_dies_between_runs();
}
TEST_F(WarmPythonDrivers, ALaterRunStartsItsWorkersAgain) { a_restart_in_the_second_run(); }
TEST_F(WarmPythonDrivers, AShutdownLeavesNoProcess) { a_shutdown(); }
TEST_F(WarmPythonDrivers, AKilledDriverLeavesNoProcess) { a_killed_driver(); }

TEST_F(WarmPythonDrivers, ARunMayHaveAnotherLoop) {
  Process& driver = drive({"loops"});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  const std::vector<WarmRun> all = runs(driver);
  ASSERT_EQ(all.size(), 3u) << driver.out() << driver.err();
  expect_same_workers(all[0], all[1]);
  expect_same_workers(all[0], all[2]);
  EXPECT_EQ(numbers(all, "loops"), (std::vector<std::int64_t>{1, 1, 1, 1, 2, 2}))
      << "its file was not loaded again";
  EXPECT_EQ(text_of(all[1].ranks.at(0), "run"), "run_002");
  EXPECT_EQ(text_of(all[1].ranks.at(0), "another"), "true");
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(WarmPythonDrivers, ManyRunsHoldNoMoreThanFew) {
  Process& driver = drive({"many"});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  const std::vector<WarmRun> all = runs(driver);
  ASSERT_EQ(all.size(), 10u) << driver.out() << driver.err();
  expect_same_workers(all[0], all[9]);
  // Of what each run left, there would be five more.
  for (const char* held : {"files", "threads", "supervisors_files"})
    for (const std::size_t rank : {0u, 1u})
      EXPECT_LT(number(all[9], rank, held), number(all[4], rank, held) + 4) << held;
}

// Its pipe has ended, and nobody reads from it in the next run.
TEST_F(WarmPythonDrivers, AWorkerMayCloseItsOutput) {
  Process& driver = drive({"closing"});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  const std::vector<WarmRun> all = runs(driver);
  ASSERT_EQ(all.size(), 4u) << driver.out() << driver.err();
  expect_same_workers(all[1], all[3]);
}

// Also after their second run, in which they were on standby at first.
TEST_F(WarmPythonDrivers, ProgramsEndByThemselvesUnlessThereIsNoPatience) {
  const auto left = [&] {
    return std::filesystem::exists(cluster.path("go-0")) +
           std::filesystem::exists(cluster.path("go-1"));
  };
  EXPECT_EQ(drive({"parting badly"}).wait(), 0);
  EXPECT_EQ(left(), 0);
  EXPECT_EQ(drive({"parting"}).wait(), 0);
  EXPECT_EQ(left(), 2);
  EXPECT_TRUE(nothing_left(cluster));
}

// The other rank fails in a later run, so that no run follows with this process.
TEST_F(WarmPythonDrivers, AProgramWhosePeerFailsEndsByItself) {
  EXPECT_EQ(drive({"parting halfway"}).wait(), 0);
  EXPECT_TRUE(std::filesystem::exists(cluster.path("go-0")));
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(WarmPythonDrivers, WorkersStayAfterARunThatItsStopConditionHasEnded) {
  Process& driver = drive({"stopping"});
  EXPECT_EQ(driver.wait(), 0) << driver.out() << driver.err();

  const std::vector<WarmRun> all = runs(driver);
  ASSERT_EQ(all.size(), 3u) << driver.out() << driver.err();
  expect_same_workers(all[0], all[2]);
}

}  // namespace
}  // namespace train::e2e
