// `train-run profile` shows where a live worker spends its time.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>

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

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Return whether a process has a thread of this name.
bool has_thread(pid_t pid, const std::string& name) {
  std::error_code error;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (std::filesystem::directory_iterator task(tasks, error), end; !error && task != end;
       task.increment(error)) {
    std::string comm;
    std::getline(std::ifstream(task->path() / "comm"), comm);
    if (comm == name) return true;
  }
  return false;
}

/// Return the bytes of folded stacks below `root` that end with a function, which is a whole frame.
double folded_bytes(const std::string& folded, const std::string& root,
                    const std::string& function) {
  double bytes = 0;
  std::istringstream lines(folded);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t blank = line.rfind(' ');
    if (line.starts_with(root + ";") && line.substr(0, blank).ends_with("::" + function + "()"))
      bytes += std::stod(line.substr(blank));
  }
  return bytes;
}

TEST(Profiles, OfMemoryNameTheFunctionThatKeepsIt) {
  if (kSanitized) GTEST_SKIP() << "SKIPPED: a sanitizer has its own malloc";
  Cluster cluster;
  Process& run = cluster.train_run({cluster.job(
      "job", "command: [" + program("allocating_worker") +
                 "]\ntrain_loop_config: {leak_at: " + cluster.path("leak") +
                 "}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}")});
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() >= 6; }));

  const std::string copy = cluster.path("copy.speedscope.json");
  Process& memory = cluster.train_run({"profile", cluster.run_dir("job"), "--rank", "1",
                                       "--seconds", "5", "--kind", "memory", "-o", copy});
  ASSERT_TRUE(wait_until([&] { return has_thread(*cluster.worker(1), "trainrun-memory"); }));
  const std::size_t steps = cluster.metrics("job").size();
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() > steps + 40; }));
  cluster.write("leak", "");
  EXPECT_EQ(memory.wait(), 0) << memory.err();
  EXPECT_TRUE(memory.out().starts_with("memory profile of rank 1 on ")) << memory.out();
  EXPECT_TRUE(contains(memory.out(), " samples, one each 512.0 KiB on average, by the SDK\n"))
      << memory.out();
  EXPECT_TRUE(contains(memory.out(), "leak_in_pieces  [allocating_worker]\n")) << memory.out();

  const std::string folded = cluster.read(profiles_of(cluster, "-rank-0001-memory.folded").at(0));
  constexpr double kMiB = 1u << 20;
  EXPECT_NEAR(folded_bytes(folded, "[still allocated]", "leak_in_pieces"), 64 * kMiB, kMiB)
      << folded;
  EXPECT_EQ(folded_bytes(folded, "[freed]", "leak_in_pieces"), 0) << folded;
  EXPECT_GT(folded_bytes(folded, "[freed]", "need_for_a_moment"), 8 * kMiB) << folded;
  EXPECT_LE(folded_bytes(folded, "[still allocated]", "need_for_a_moment"), 5 * kMiB) << folded;
  EXPECT_TRUE(contains(cluster.read(copy), R"("unit":"bytes")")) << cluster.read(copy);
  EXPECT_EQ(cluster.json_lines(cluster.read(copy)).size(), 1u);
  const std::string page = cluster.read(profiles_of(cluster, "-rank-0001-memory.html").at(0));
  EXPECT_TRUE(contains(page, R"("unit":"bytes")"));
  EXPECT_TRUE(contains(page, "leak_in_pieces"));

  // Once more: what the first has left behind is not in the way, and nothing leaks any more.
  Process& again = cluster.train_run(
      {"profile", cluster.run_dir("job"), "--rank", "1", "--seconds", "0.5", "--kind", "memory"});
  EXPECT_EQ(again.wait(), 0) << again.err();
  EXPECT_FALSE(contains(again.out(), "leak_in_pieces")) << again.out();
  EXPECT_TRUE(run.running());
  EXPECT_EQ(cluster.workers().size(), 2u);
}

TEST(Profiles, OfMemoryNeedTheSdk) {
  Cluster cluster;
  cluster.train_run({cluster.job("job",
                                 "command: [sleep, '1000']\nscaling_config: {num_workers: "
                                 "1, resources_per_worker: {CPU: 0}}")});
  ASSERT_TRUE(wait_until([&] { return cluster.worker(0).has_value(); }));
  Process& none = cluster.train_run(
      {"profile", cluster.run_dir("job"), "--rank", "0", "--seconds", "0.1", "--kind", "memory"});
  EXPECT_EQ(none.wait(), 69);
  EXPECT_TRUE(contains(none.err(), "its program does not use trainrun's SDK")) << none.err();
  EXPECT_TRUE(contains(none.err(), "call train::run()")) << none.err();
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
