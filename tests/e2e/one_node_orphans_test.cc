// No process is ever left: whoever is killed, and whatever the workers have started.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

constexpr const char* kTwoWorkers =
    "\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}";

/// Two workers, each with a child, one in a session of its own and one forked twice, that all hang.
std::string family_job(const Cluster& cluster, const std::string& failure_config = "{}") {
  return cluster.job(
      "job", "command: [" + program("plain_worker") + ", family, print, ready, hang]" + kTwoWorkers,
      "  failure_config: " + failure_config);
}

bool family_is_up(const Cluster& cluster) { return cluster.workers().size() == 8; }

/// Nothing of the run is left: processes, the private daemon's folder, control groups.
bool nothing_left(const Cluster& cluster) {
  return cluster.processes().empty() && cluster.runtime_folders().empty();
}

/// The name of the supervisor's control group, from its command line.
std::string control_group(const Cluster& cluster) {
  for (const Seen& seen : cluster.processes(" supervise --run ")) {
    const auto at = seen.command.find("--cgroup ");
    if (at != std::string::npos)
      return seen.command.substr(at + 9, seen.command.find(' ', at + 9) - at - 9);
  }
  return "";
}

/// Folders of that name in all hierarchies (v1 and v2).
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
std::vector<Seen> supervisors(const Cluster& cluster) {
  return cluster.processes(" supervise --run ");
}
std::vector<Seen> daemons(const Cluster& cluster) { return cluster.processes("traind --private"); }

TEST(Orphans, NoneAfterAWorkerIsKilled) {
  Cluster cluster;
  Process& run = cluster.train_run({family_job(cluster)});
  ASSERT_TRUE(wait_until([&] { return family_is_up(cluster); }));
  const std::string group = control_group(cluster);
  ASSERT_NE(group, "");

  send_signal(cluster.worker(1).value_or(-1), SIGKILL);

  EXPECT_EQ(run.wait(), 137);
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(folders_of(group), std::vector<std::string>{});
}

TEST(Orphans, NoneAfterTheWorkersReturn) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({cluster.job("job", "command: [" + program("plain_worker") +
                                                ", family, exit, 0]" + kTwoWorkers)}),
            0);

  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST(Orphans, NoneAfterTheSupervisorIsKilledAndTheRunSaysSo) {
  Cluster cluster;
  Process& run = cluster.train_run({family_job(cluster)});
  ASSERT_TRUE(wait_until([&] { return family_is_up(cluster); }));
  const std::string group = control_group(cluster);
  ASSERT_NE(group, "");

  send_signal(only(supervisors(cluster)), SIGKILL);

  EXPECT_EQ(run.wait(), 1);
  EXPECT_TRUE(contains(text_of(cluster.exit_json("job"), "cause"), "supervisor"))
      << text_of(cluster.exit_json("job"), "cause");
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(folders_of(group), std::vector<std::string>{});
}

TEST(Orphans, ARunWithFailuresLeftGoesOnAfterItsSupervisorIsKilled) {
  Cluster cluster;
  Process& run =
      cluster.train_run({cluster.job("job",
                                     "command: [" + program("plain_worker") +
                                         ", print, ready, attempt, 0, family, hang]" + kTwoWorkers,
                                     "  failure_config: {max_failures: 1}")});
  ASSERT_TRUE(wait_until([&] { return family_is_up(cluster); }));

  send_signal(only(supervisors(cluster)), SIGKILL);

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST(Orphans, ThePrivateDaemonIsStartedAgainAndTheRunGoesOn) {
  Cluster cluster;
  const std::string go = cluster.path("go");
  Process& run = cluster.train_run(
      {cluster.job("job", "command: [" + program("plain_worker") + ", print, before, wait-for, " +
                              go + ", print, after]" + kTwoWorkers)});
  ASSERT_TRUE(wait_until(
      [&] { return contains(run.out(), "0] before") && contains(run.out(), "1] before"); }));
  const pid_t first = only(daemons(cluster));
  ASSERT_GT(first, 0);

  send_signal(first, SIGKILL);
  ASSERT_TRUE(
      wait_until([&] { return only(daemons(cluster)) > 0 && only(daemons(cluster)) != first; }));
  cluster.write("go", "");

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(), "0] after") && contains(run.out(), "1] after")) << run.out();
  for (const auto& event : cluster.journal("job"))
    EXPECT_NE(text_of(event, "trigger"), "restart_decided");
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

TEST(Orphans, TheWorkersOfAKilledLauncherLiveUntilTheOrphanTimeout) {
  Cluster cluster;
  Process& run =
      cluster.train_run({family_job(cluster, "{orphan_timeout: 2s, stop_grace: 100ms}")});
  ASSERT_TRUE(wait_until([&] { return family_is_up(cluster); }));
  const std::string group = control_group(cluster);
  ASSERT_NE(group, "");

  run.signal(SIGKILL);
  ASSERT_EQ(run.wait(), 137);
  EXPECT_EQ(cluster.workers().size(), 8u);

  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(folders_of(group), std::vector<std::string>{});
}

TEST(Orphans, NoneAfterDaemonAndLauncherAreKilledTogether) {
  Cluster cluster;
  Process& run =
      cluster.train_run({family_job(cluster, "{orphan_timeout: 1s, stop_grace: 100ms}")});
  ASSERT_TRUE(wait_until([&] { return family_is_up(cluster); }));

  send_signal(only(daemons(cluster)), SIGKILL);
  run.signal(SIGKILL);

  EXPECT_TRUE(wait_until([&] { return cluster.processes().empty(); }));
}

TEST(Orphans, AResumedRunEndsTheWorkersThatItsKilledLauncherLeft) {
  Cluster cluster;
  const std::string go = cluster.path("go");
  Process& run = cluster.train_run(
      {cluster.job("job", "command: [" + program("plain_worker") + ", print, before, wait-for, " +
                              go + ", print, after]" + kTwoWorkers)});
  ASSERT_TRUE(wait_until(
      [&] { return contains(run.out(), "0] before") && contains(run.out(), "1] before"); }));
  const std::vector<Seen> first = cluster.workers();
  run.signal(SIGKILL);
  ASSERT_EQ(run.wait(), 137);

  Process& resumed = cluster.train_run({"resume", cluster.run_dir("job")});

  EXPECT_TRUE(wait_until([&] {
    return std::none_of(first.begin(), first.end(), [](const Seen& seen) {
      return exists("/proc/" + std::to_string(seen.pid));
    });
  }));
  cluster.write("go", "");
  EXPECT_EQ(resumed.wait(), 0);
  EXPECT_TRUE(contains(resumed.out(), "0] after") && contains(resumed.out(), "1] after"))
      << resumed.out();
  EXPECT_FALSE(contains(resumed.out(), "warning")) << resumed.out();
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
}

}  // namespace
}  // namespace train::e2e
