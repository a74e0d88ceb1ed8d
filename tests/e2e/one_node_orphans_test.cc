// No process is ever left, whoever is killed and whatever the workers have started.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

constexpr const char* kTwoWorkers =
    "\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}";

/// Return folders of that name in all control group hierarchies (v1 and v2).
std::vector<std::string> folders_of(const std::string& control_group) {
  std::vector<std::string> found;
  std::error_code ec;
  const auto options = std::filesystem::directory_options::skip_permission_denied;
  for (auto at = std::filesystem::recursive_directory_iterator("/sys/fs/cgroup", options, ec);
       !ec && at != std::filesystem::recursive_directory_iterator(); at.increment(ec)) {
    if (at->path().filename() == control_group) found.push_back(at->path().string());
  }
  return found;
}

pid_t only(const std::vector<Seen>& seen) { return seen.size() == 1 ? seen.front().pid : -1; }

class Orphans : public ::testing::Test {
 protected:
  /// Start train-run with two workers that do what `words` say.
  Process& start(const std::string& words, const std::string& failure_config = "{}",
                 const StartOptions& options = {}) {
    return cluster.train_run(
        {cluster.job("job",
                     "command: [" + program("plain_worker") + ", " + words + "]" + kTwoWorkers,
                     "  failure_config: " + failure_config)},
        options);
  }
  /// Hide all control groups. Needs root.
  static StartOptions without_control_groups() {
    StartOptions options;
    options.prefix = {
        "unshare", "--mount", "sh", "-c", "umount --recursive --lazy /sys/fs/cgroup && exec \"$@\"",
        "sh"};
    return options;
  }
  /// Start two workers, each with a child, one in its own session and one forked twice; all of them
  /// hang.
  Process& start_family(const std::string& failure_config = "{}",
                        const std::string& words = "family, print, ready, hang",
                        const StartOptions& options = {}) {
    Process& run = start(words, failure_config, options);
    EXPECT_TRUE(wait_until([&] { return cluster.workers().size() == 8; }));
    for (const Seen& seen : supervisors()) {
      const auto at = seen.command.find("--cgroup ");
      if (at != std::string::npos)
        control_group_ = seen.command.substr(at + 9, seen.command.find(' ', at + 9) - at - 9);
    }
    EXPECT_NE(control_group_, "");
    return run;
  }
  /// Start two workers that say "before", wait for go() and say "after".
  Process& start_waiting() {
    Process& run = start("print, before, wait-for, " + cluster.path("go") + ", print, after");
    EXPECT_TRUE(wait_until([&] { return both_say(run, "before"); }));
    return run;
  }
  void go() { cluster.write("go", ""); }
  static bool both_say(const Process& run, const std::string& word) {
    return contains(run.out(), "0] " + word) && contains(run.out(), "1] " + word);
  }

  std::vector<Seen> supervisors() const { return cluster.processes(" supervise --run "); }
  std::vector<Seen> daemons() const { return cluster.processes("traind --private"); }

  /// Check that nothing of the run is left: processes, the private daemon's folder, control groups.
  void expect_nothing_left() {
    EXPECT_TRUE(wait_until(
        [&] { return cluster.processes().empty() && cluster.runtime_folders().empty(); }));
    if (!control_group_.empty()) {
      EXPECT_EQ(folders_of(control_group_), std::vector<std::string>{});
    }
  }

  Cluster cluster;

 private:
  std::string control_group_;  // the supervisor's, from its command line
};

TEST_F(Orphans, NoneAfterAWorkerIsKilledWhereThereAreNoControlGroups) {
  if (::geteuid() != 0) GTEST_SKIP() << "hiding the control groups needs root";
  Process& run = start_family("{}", "family, print, ready, hang", without_control_groups());

  send_signal(cluster.worker(1).value_or(-1), SIGKILL);

  EXPECT_EQ(run.wait(), 137) << run.err();
  expect_nothing_left();
}

TEST_F(Orphans, ARankThatEndsTakesItsFamilyAndNoOtherRankWhereThereAreNoControlGroups) {
  if (::geteuid() != 0) GTEST_SKIP() << "hiding the control groups needs root";
  const std::string worker = program("plain_worker"), ended = cluster.path("ended");
  Process& run = cluster.train_run(
      {cluster.job("job", "command: [sh, -c, '[ $RANK = 0 ] && exec " + worker + " family touch " +
                              ended + "; exec " + worker + " wait-for " + cluster.path("go") +
                              " print after']" + kTwoWorkers)},
      without_control_groups());
  ASSERT_TRUE(wait_until([&] { return exists(ended) && cluster.workers().size() == 1; }))
      << run.out() << run.err();

  go();

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "1] after")) << run.out();
  expect_nothing_left();
}

TEST_F(Orphans, NoneAfterAWorkerIsKilled) {
  Process& run = start_family();

  send_signal(cluster.worker(1).value_or(-1), SIGKILL);

  EXPECT_EQ(run.wait(), 137);
  expect_nothing_left();
}

TEST_F(Orphans, NoneAfterTheWorkersReturn) {
  EXPECT_EQ(start("family, exit, 0").wait(), 0);

  expect_nothing_left();
}

TEST_F(Orphans, NoneAfterTheSupervisorIsKilledAndTheRunSaysSo) {
  Process& run = start_family();

  send_signal(only(supervisors()), SIGKILL);

  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(contains(text_of(cluster.exit_json("job"), "cause"), "supervisor"))
      << text_of(cluster.exit_json("job"), "cause");
  expect_nothing_left();
}

/// Break all connections of a process, from outside. Return whether the system allows that.
bool break_connections(pid_t pid) {
  const int process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  bool broken = false;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    const int number = std::stoi(entry.path().filename());
    const int fd = static_cast<int>(::syscall(SYS_pidfd_getfd, process, number, 0));
    broken = (fd >= 0 && ::shutdown(fd, SHUT_RDWR) == 0) || broken;
    if (fd >= 0) ::close(fd);
  }
  ::close(process);
  return broken;
}

TEST_F(Orphans, ARunWithFailuresLeftGoesOnAfterItsSupervisorHasLostItsLink) {
  Process& run = start_family("{max_failures: 1}", "print, ready, attempt, 0, family, hang");
  const pid_t supervisor = only(supervisors());

  if (!break_connections(supervisor)) {
    send_signal(supervisor, SIGKILL);
    run.wait();
    GTEST_SKIP() << "breaking another process's connections needs CAP_SYS_PTRACE";
  }

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_NE(only(supervisors()), supervisor);
  expect_nothing_left();
}

// The workers die with the supervisor. traind inherits their children, and knows them by variables.
TEST_F(Orphans, NoneAfterTheSupervisorIsKilledWhereThereAreNoControlGroups) {
  if (::geteuid() != 0) GTEST_SKIP() << "hiding the control groups needs root";
  Process& run = start_family("{}", "family, print, ready, hang", without_control_groups());

  send_signal(only(supervisors()), SIGKILL);

  EXPECT_EQ(run.wait(), 1) << run.out() << run.err();
  EXPECT_TRUE(contains(text_of(cluster.exit_json("job"), "cause"), "supervisor"))
      << text_of(cluster.exit_json("job"), "cause");
  expect_nothing_left();
}

TEST_F(Orphans, ARunWithFailuresLeftGoesOnAfterItsSupervisorIsKilled) {
  Process& run = start_family("{max_failures: 1}", "print, ready, attempt, 0, family, hang");

  send_signal(only(supervisors()), SIGKILL);

  EXPECT_EQ(run.wait(), 0);
  expect_nothing_left();
}

TEST_F(Orphans, ThePrivateDaemonIsStartedAgainAndTheRunGoesOn) {
  Process& run = start_waiting();
  const pid_t first = only(daemons());
  ASSERT_GT(first, 0);

  send_signal(first, SIGKILL);
  ASSERT_TRUE(wait_until([&] { return only(daemons()) > 0 && only(daemons()) != first; }));
  go();

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(both_say(run, "after")) << run.out();
  for (const auto& event : cluster.journal("job"))
    EXPECT_NE(text_of(event, "trigger"), "restart_decided");
  expect_nothing_left();
}

TEST_F(Orphans, TheWorkersOfAKilledLauncherLiveUntilTheOrphanTimeout) {
  using Clock = std::chrono::steady_clock;
  Process& run = start_family("{orphan_timeout: 2s, stop_grace: 100ms}");

  const auto killed = Clock::now();
  run.signal(SIGKILL);
  ASSERT_EQ(run.wait(), 137);
  // Their own timeout ends them; the default is ten minutes.
  ASSERT_TRUE(wait_until([&] { return cluster.workers().empty(); }, Seconds(60)));

  EXPECT_GE(Clock::now() - killed, Seconds(2));  // a slow machine only takes longer
  expect_nothing_left();
}

TEST_F(Orphans, NoneAfterDaemonAndLauncherAreKilledTogether) {
  Process& run = start_family("{orphan_timeout: 1s, stop_grace: 100ms}");

  send_signal(only(daemons()), SIGKILL);
  run.signal(SIGKILL);

  EXPECT_TRUE(wait_until([&] { return cluster.processes().empty(); }));
}

TEST_F(Orphans, AResumedRunFindsTheWorkersThatItsKilledLauncherLeft) {
  Process& run = start_waiting();
  const std::vector<Seen> first = cluster.workers();
  // The launcher writes it while the workers start, and `resume` reads it.
  ASSERT_TRUE(wait_until([&] { return exists(cluster.run_dir("job") + "/spec.resolved.yaml"); }));
  run.signal(SIGKILL);
  ASSERT_EQ(run.wait(), 137);

  Process& resumed = cluster.train_run({"resume", cluster.run_dir("job")});

  ASSERT_TRUE(wait_until([&] { return contains(resumed.out(), "found 2 workers still running"); }))
      << resumed.out();
  for (const Seen& seen : first) EXPECT_TRUE(exists("/proc/" + std::to_string(seen.pid)));
  go();
  EXPECT_EQ(resumed.wait(), 0);
  EXPECT_TRUE(both_say(resumed, "after")) << resumed.out();
  for (const char* rank : {"0000", "0001"})  // from both launchers, each line once
    EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/" + rank + "/stdout.log"),
              "before\nafter\n");
  EXPECT_FALSE(contains(resumed.out(), "warning")) << resumed.out();
  expect_nothing_left();
}

}  // namespace
}  // namespace train::e2e
