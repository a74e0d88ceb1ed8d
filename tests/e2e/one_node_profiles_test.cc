// `train-run profile` shows where a live worker spends its time.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

/// Write a job of two ranks, of which rank 1 is in an endless loop (`loop`), or waits (`mutex`).
std::string job_with(const Cluster& cluster, const std::string& how) {
  return cluster.job("job",
                     "command: [" + program("hanging_worker") +
                         "]\ntrain_loop_config: {how: " + how +
                         "}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}",
                     "  failure_config: {hang_timeout: 1h}");
}

/// Return the files of the run's profiles with this ending.
std::vector<std::string> profiles_of(const Cluster& cluster, const std::string& ending) {
  std::vector<std::string> found;
  std::error_code error;
  const std::string folder = cluster.run_dir("job") + "/attempts/000/profiles";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().string().ends_with(ending)) found.push_back(entry.path().string());
  return found;
}

TEST(Profiles, NameTheFunctionThatRunsAndLeaveAFlameGraph) {
  Cluster cluster;
  Process& run = cluster.train_run({job_with(cluster, "loop")});
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() >= 6; }));

  const std::string copy = cluster.path("copy.html");
  Process& busy = cluster.train_run(
      {"profile", cluster.run_dir("job"), "--rank", "1", "--seconds", "1", "-o", copy});
  EXPECT_EQ(busy.wait(), 0) << busy.err();
  EXPECT_TRUE(busy.out().starts_with("cpu profile of rank 1 on ")) << busy.out();
  EXPECT_TRUE(contains(busy.out(), " of 1.0 s on a CPU; ")) << busy.out();
  EXPECT_TRUE(contains(busy.out(), "  [hanging_worker]\n")) << busy.out();
  EXPECT_TRUE(contains(busy.out(), "-rank-0001-cpu.html\n")) << busy.out();
  ASSERT_EQ(profiles_of(cluster, "-rank-0001-cpu.html").size(), 1u);
  EXPECT_EQ(cluster.read(copy), cluster.read(profiles_of(cluster, ".html")[0]));
  EXPECT_TRUE(contains(cluster.read(copy), "hang(")) << busy.out();  // the function of the program
  const std::string folded = cluster.read(profiles_of(cluster, "-rank-0001-cpu.folded").at(0));
  EXPECT_TRUE(contains(folded, "hang(")) << folded;
  EXPECT_TRUE(contains(folded, ";main;")) << folded;
  EXPECT_EQ(
      cluster.json_lines(cluster.read(profiles_of(cluster, "-rank-0001-cpu.speedscope.json").at(0)))
          .size(),
      1u);

  // Its workers go on.
  EXPECT_TRUE(run.running());
  EXPECT_EQ(cluster.workers().size(), 2u);
  run.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "stopping"); }));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
  EXPECT_EQ(cluster.run({"profile", cluster.run_dir("job"), "--rank", "1"}), 69);
}

TEST(Profiles, OfAWorkerThatWaitsSayWhere) {
  Cluster cluster;
  Process& run = cluster.train_run({job_with(cluster, "mutex")});
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() >= 6; }));

  Process& idle =
      cluster.train_run({"profile", cluster.run_dir("job"), "--rank", "1", "--seconds", "0.5"});
  EXPECT_EQ(idle.wait(), 0) << idle.err();
  EXPECT_TRUE(contains(idle.out(), "to see where it waits: --kind wall")) << idle.out();

  Process& wall = cluster.train_run(
      {"profile", cluster.run_dir("job"), "--rank", "1", "--seconds", "0.5", "--kind", "wall"});
  EXPECT_EQ(wall.wait(), 0) << wall.err();
  EXPECT_TRUE(wall.out().starts_with("wall profile of rank 1 on ")) << wall.out();
  const std::string folded = cluster.read(profiles_of(cluster, "-rank-0001-wall.folded").at(0));
  EXPECT_TRUE(contains(folded, "hang(")) << folded;
  EXPECT_TRUE(contains(folded, "pthread_mutex_lock")) << folded;

  run.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "stopping"); }));
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
}

TEST(Profiles, AreRefusedWithAReason) {
  Cluster cluster;
  Process& run = cluster.train_run({job_with(cluster, "mutex")});
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() >= 6; }));
  const std::string folder = cluster.run_dir("job");

  Process& none = cluster.train_run({"profile", folder, "--rank", "7"});
  EXPECT_EQ(none.wait(), 69);
  EXPECT_TRUE(contains(none.err(), "rank 7 has no worker now")) << none.err();
  Process* long_one = nullptr;
  ASSERT_TRUE(wait_until([&] {  // it is taken once the same is refused; the second may come first
    if (long_one == nullptr || !long_one->running())
      long_one = &cluster.train_run({"profile", folder, "--rank", "0", "--seconds", "60"});
    Process& second = cluster.train_run({"profile", folder, "--rank", "0", "--seconds", "0.1"});
    return second.wait() == 69 &&
           contains(second.err(), "another profile of rank 0 is being taken");
  }));
  EXPECT_EQ(cluster.run({"profile", folder, "--rank", "0", "--seconds", "61"}), 2);
  EXPECT_EQ(cluster.run({"profile", folder, "--rank", "0", "-o", cluster.path("x.svg")}), 2);
  EXPECT_EQ(cluster.run({"profile", folder}), 2);

  // It ends with its worker: what there is by then may come before the end of the attempt, or not.
  send_signal(*cluster.worker(0), SIGKILL);
  EXPECT_NE(run.wait(), 0);
  const auto code = long_one->wait();
  EXPECT_TRUE((code == 69 && contains(long_one->err(), "ended before the profile was complete")) ||
              contains(long_one->out(), "note: the worker ended meanwhile"))
      << long_one->out() << long_one->err();
}

}  // namespace
}  // namespace train::e2e
