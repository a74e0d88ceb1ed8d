// Limits on a worker's memory, processes, CPU time and files, and the messages about a worker that
// exceeds them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/e2e/outer_group.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

/// Return a job of plain workers that do what `words` say, with these resources.
std::string job_of(const Cluster& cluster, const std::string& words, const std::string& scaling,
                   const std::string& run_config = "") {
  return cluster.job("job",
                     "command: [" + program("plain_worker") + ", " + words +
                         "]\nscaling_config: {" + scaling + "}",
                     run_config);
}

TEST(Limits, AWorkerThatWantsMoreMemoryThanItClaimedIsKilledAndTheLimitIsNamed) {
  if (!can_limit("memory")) GTEST_SKIP() << kCannotLimit;
  const LimitingGroup group;
  Cluster cluster;

  EXPECT_EQ(cluster.run({job_of(cluster, "rank, 1, eat, 400",
                                "num_workers: 2, resources_per_worker: {CPU: 0, memory: 200MiB}")},
                        group.inside()),
            137);

  const auto exit = cluster.exit_json("job");
  EXPECT_TRUE(contains(text_of(exit, "cause"),
                       " ran out of memory: 200 MiB of the 200 MiB that it claimed"))
      << text_of(exit, "cause");
  EXPECT_EQ(text_of(exit, "root_rank"), "1");
  EXPECT_EQ(text_of(exit, "code"), "137");
  EXPECT_EQ(text_of(exit, "how_known"), "the kernel counted an out-of-memory kill in its cgroup");
}

TEST(Limits, SoIsOneWhoseChildWantsIt) {
  if (!can_limit("memory")) GTEST_SKIP() << kCannotLimit;
  const LimitingGroup group;
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: \"" + program("plain_worker") + " eat 400; exec sleep 1000\"\n" +
                             "scaling_config: {resources_per_worker: {CPU: 0, memory: 100MiB}}");

  EXPECT_EQ(cluster.run({job}, group.inside()), 137);

  EXPECT_TRUE(
      contains(text_of(cluster.exit_json("job"), "cause"), " ran out of memory: 100 MiB of"))
      << text_of(cluster.exit_json("job"), "cause");
}

TEST(Limits, AnOutOfMemoryKillIsAFailureLikeAnyOther) {
  if (!can_limit("memory")) GTEST_SKIP() << kCannotLimit;
  const LimitingGroup group;
  Cluster cluster;
  const std::string job = cluster.job(
      "job",
      "command: \"[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; exec " + program("plain_worker") +
          " eat 400\"\nscaling_config: {resources_per_worker: {CPU: 0, memory: 200MiB}}",
      "  failure_config: {max_failures: 1, backoff: {initial: 10ms, max: 10ms}}");

  EXPECT_EQ(cluster.run({job}, group.inside()), 0);

  int restarts = 0;
  std::vector<std::string> causes;
  for (const auto& event : cluster.journal("job")) {
    restarts += text_of(event, "trigger") == "restart_decided";
    if (text_of(event, "event") == "attempt_ended") causes.push_back(text_of(event, "cause"));
  }
  EXPECT_EQ(restarts, 1);
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_TRUE(contains(causes[0], " ran out of memory: 200 MiB of the 200 MiB that it claimed"))
      << causes[0];
  EXPECT_EQ(causes[1], "every rank ended with 0");
}

TEST(Limits, AWorkerHasWhatItClaimedAndOneWithoutAClaimIsNotLimited) {
  Cluster cluster;

  EXPECT_EQ(
      cluster.run({job_of(cluster, "eat, 100", "resources_per_worker: {CPU: 0, memory: 200MiB}")}),
      0);
  EXPECT_EQ(cluster.run({cluster.job("free", "command: [" + program("plain_worker") +
                                                 ", eat, 300]\nscaling_config: {num_workers: 1}")}),
            0);
}

TEST(Limits, WhereNoGroupCanBeMadeTheOnesAboveAreLookedAt) {
  if (!can_limit("memory")) GTEST_SKIP() << kCannotLimit;
  const OuterGroup slurm("slurm-test");
  Cluster cluster;
  ASSERT_TRUE(slurm.limit_memory(200));

  EXPECT_EQ(cluster.run({job_of(cluster, "eat, 400", "resources_per_worker: {CPU: 0}")},
                        slurm.inside_without_groups()),
            137);

  EXPECT_TRUE(contains(text_of(cluster.exit_json("job"), "cause"),
                       " ran out of memory: all 200 MiB that Slurm gave it are used"))
      << text_of(cluster.exit_json("job"), "cause");
}

/// Return a value of /proc/PID/status in KiB: "VmHWM:" is the peak memory, "VmLck:" the locked
/// memory. Return 0 if it cannot be read.
long kibibytes_of(pid_t pid, const std::string& field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string word; status >> word;) {
    long kibibytes = 0;
    if (word == field && status >> kibibytes) return kibibytes;
  }
  return 0;
}

int times_in(const std::string& text, const std::string& part) {
  int times = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

// Another process holds two thirds of the memory, and reading files churns all that is left.
TEST(Limits, ARunGoesOnWhenMemoryIsShort) {
  if (!can_limit("memory")) GTEST_SKIP() << kCannotLimit;
  const OuterGroup node("node");
  Cluster cluster;
  struct statfs disk {};
  ASSERT_EQ(::statfs(cluster.path("").c_str(), &disk), 0);
  if (disk.f_type == TMPFS_MAGIC)
    GTEST_SKIP() << "a folder for temporary files on a disk: in memory they count as the group's";
  constexpr int kMebibytes = 400;
  ASSERT_TRUE(node.limit_memory(kMebibytes));
  const StartOptions inside = node.inside();
  Process& run = cluster.train_run(
      {cluster.job(
          "job",
          "command: [" + program("sdk_worker") +
              "]\ntrain_loop_config: {mode: epochs, epochs: 60, hold_at: [3, 40], hold_file: '" +
              cluster.path("go") +
              "'}\nscaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}",
          "  checkpoint_config: {num_to_keep: 2}\n")},
      inside);
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() >= 6; })) << run.err();

  Process& hog = cluster.start(
      {program("plain_worker"), "eat", std::to_string(kMebibytes * 65 / 100), "hang"}, inside);
  const std::string file = cluster.path("file");
  cluster.start(
      {"sh", "-c",
       "head -c 300M /dev/zero > " + file + "; while :; do cat " + file + "; done > /dev/null"},
      inside);
  ASSERT_TRUE(wait_until([&] { return node.memory_used() >= kMebibytes * 95 / 100; }))
      << node.memory_used();
  std::ofstream(cluster.path("go") + "-0-3") << "go";
  ASSERT_TRUE(wait_until([&] { return cluster.metrics("job").size() == 80; })) << run.err();
  const std::vector<Seen> daemons = cluster.processes("traind --private");
  ASSERT_EQ(daemons.size(), 1u);
  EXPECT_GT(kibibytes_of(daemons[0].pid, "VmHWM:"), 0);
  EXPECT_LT(kibibytes_of(daemons[0].pid, "VmHWM:"), 64 << 10);
  // After a silence of 3 s, the launcher would have attached again.
  ASSERT_EQ(cluster.runtime_folders().size(), 2u);
  const std::string log = cluster.read(cluster.runtime_folders()[0] + "/traind.log");
  EXPECT_EQ(times_in(log, "launcher attached"), 1) << log;
  std::ofstream(cluster.path("go") + "-0-40") << "go";

  EXPECT_EQ(run.wait(), 0);
  EXPECT_TRUE(hog.running());
  EXPECT_FALSE(contains(run.out(), "no heartbeat")) << run.out();
  EXPECT_EQ(cluster.metrics("job").size(), 120u);
  for (const Seen& seen : cluster.processes()) send_signal(seen.pid, SIGKILL);
  EXPECT_TRUE(wait_until([&] { return cluster.processes().empty(); }));
}

/// Start two workers, and wait until they wait for the file "go".
Process& start_waiting(Cluster& cluster, const StartOptions& options = {}) {
  Process& run = cluster.train_run({job_of(cluster, "print, ready, wait-for, " + cluster.path("go"),
                                           "num_workers: 2, resources_per_worker: {CPU: 0}")},
                                   options);
  EXPECT_TRUE(wait_until([&] {
    return contains(run.out(), "0] ready") && contains(run.out(), "1] ready");
  })) << run.out();
  return run;
}

/// Return the score. When memory is short, the kernel kills processes with a higher score sooner.
std::string oom_score_of(pid_t pid) {
  return read_file("/proc/" + std::to_string(pid) + "/oom_score_adj");
}

/// Return whether we may lower the score: in a container, root may lack that right.
bool may_be_spared() {
  const int own = std::stoi(oom_score_of(::getpid()));
  const auto set = [](int score) {
    std::ofstream file("/proc/self/oom_score_adj");
    return static_cast<bool>((file << score).flush());
  };
  return own <= 0 && set(own - 1) && set(own);
}

TEST(Limits, WhereMemoryIsShortWorkersAreKilledBeforeSupervisorAndTraind) {
  if (!may_be_spared()) GTEST_SKIP() << "needs CAP_SYS_RESOURCE, and no oom_score_adj above 0";
  Cluster cluster;
  Process& run = start_waiting(cluster);
  const std::vector<Seen> daemons = cluster.processes("traind --private");
  const std::vector<Seen> supervisors = cluster.processes(" supervise --run ");
  ASSERT_EQ(daemons.size(), 1u);
  ASSERT_EQ(supervisors.size(), 1u);
  ASSERT_EQ(cluster.workers().size(), 2u);

  EXPECT_EQ(oom_score_of(daemons[0].pid), "-900\n");
  EXPECT_EQ(oom_score_of(supervisors[0].pid), "-500\n");
  for (const Seen& worker : cluster.workers()) EXPECT_EQ(oom_score_of(worker.pid), "0\n");

  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0);
}

/// Return whether we may lock any number of pages: in a container, root may lack that right, too.
bool may_lock_pages() {
  rlimit allowed{};
  if (::getrlimit(RLIMIT_MEMLOCK, &allowed) != 0) return false;
  const rlimit none{0, allowed.rlim_max};
  ::setrlimit(RLIMIT_MEMLOCK, &none);
  const char page = 0;
  const bool may = ::mlock(&page, 1) == 0;
  ::munlock(&page, 1);
  ::setrlimit(RLIMIT_MEMLOCK, &allowed);
  return may;
}

TEST(Limits, ThePagesOfTraindAreLocked) {
  if (!may_lock_pages()) GTEST_SKIP() << "needs CAP_IPC_LOCK";
  Cluster cluster;
  Process& run = start_waiting(cluster);
  const std::vector<Seen> daemons = cluster.processes("traind --private");
  ASSERT_EQ(daemons.size(), 1u);

  EXPECT_GT(kibibytes_of(daemons[0].pid, "VmLck:"), 0);

  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0);
}

TEST(Limits, AWorkerHasNoMoreProcessesThanTheSpecSays) {
  if (!can_limit("pids")) GTEST_SKIP() << kCannotLimit;
  const LimitingGroup group("pids");
  Cluster cluster;

  EXPECT_EQ(cluster.run({job_of(cluster, "forks, 500, exit, 3",
                                "resources_per_worker: {CPU: 0}, pids_per_worker: 50")},
                        group.inside()),
            3);

  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0000/stdout.log"),
            "49 forked\n");
  EXPECT_TRUE(contains(text_of(cluster.exit_json("job"), "cause"),
                       " exited with code 3, after it reached its limit of "
                       "50 processes and threads"))
      << text_of(cluster.exit_json("job"), "cause");
  EXPECT_TRUE(wait_until([&] { return cluster.processes().empty(); }));
}

/// Return the folder of the control group that counts the process's children.
fs::path pids_group_of(pid_t pid) {
  std::ifstream groups("/proc/" + std::to_string(pid) + "/cgroup");
  fs::path v2;
  for (std::string line; std::getline(groups, line);) {  // 8:pids:/path, or 0::/path
    if (const auto at = line.find(":pids:"); at != std::string::npos)
      return "/sys/fs/cgroup/pids" + line.substr(at + 6);
    if (line.starts_with("0::")) v2 = "/sys/fs/cgroup" + line.substr(3);
  }
  return v2;
}

// A fork bomb leaves the machine enough processes to log in.
TEST(Limits, AllWorkersTogetherHaveHalfOfTheProcessesThatThereCanBe) {
  if (!can_limit("pids")) GTEST_SKIP() << kCannotLimit;
  const LimitingGroup group("pids");
  Cluster cluster;
  Process& run = start_waiting(cluster, group.inside());
  const fs::path of_one = pids_group_of(cluster.worker(0).value_or(-1));
  const auto number_in = [](const char* path) { return std::stoi(read_file(path)); };
  const int half =
      std::min(number_in("/proc/sys/kernel/pid_max"), number_in("/proc/sys/kernel/threads-max")) /
      2;

  EXPECT_EQ(read_file(of_one / "pids.max"), "max\n");
  EXPECT_EQ(read_file(of_one.parent_path() / "pids.max"), std::to_string(half) + "\n");

  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0);
}

/// Start with `soft` as the limit of open files, which may be raised to `hard`.
StartOptions with_open_files(int soft, int hard) {
  return {.env = {},
          .prefix = {"prlimit", "--nofile=" + std::to_string(soft) + ":" + std::to_string(hard)},
          .cwd = {}};
}

// traind raises its own limit; workers do not inherit it: select(2) cannot bear a large one.
TEST(Limits, AWorkerMayHaveAsManyOpenFilesAsTheRunWasStartedWith) {
  Cluster cluster;

  EXPECT_EQ(cluster.run({cluster.job("job",
                                     "command: \"ulimit -Sn; ulimit -Hn\"\nscaling_config: "
                                     "{resources_per_worker: {CPU: 0}}")},
                        with_open_files(1000, 2000)),
            0);

  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0000/stdout.log"),
            "1000\n2000\n");
}

/// Return the soft and the hard limit from /proc.
std::pair<int, int> open_files_of(pid_t pid) {
  std::istringstream limits(read_file("/proc/" + std::to_string(pid) + "/limits"));
  constexpr std::string_view kName = "Max open files";
  std::pair<int, int> found{-1, -1};
  for (std::string line; std::getline(limits, line);) {
    if (line.starts_with(kName))
      std::istringstream(line.substr(kName.size())) >> found.first >> found.second;
  }
  return found;
}

TEST(Limits, OurProcessesMayHaveAsManyOpenFilesAsTheyCanGet) {
  Cluster cluster;
  Process& run = start_waiting(cluster, with_open_files(1000, 2000));
  const std::vector<Seen> daemons = cluster.processes("traind --private");
  const std::vector<Seen> supervisors = cluster.processes(" supervise --run ");
  ASSERT_EQ(daemons.size(), 1u);
  ASSERT_EQ(supervisors.size(), 1u);
  ASSERT_EQ(cluster.workers().size(), 2u);

  EXPECT_EQ(open_files_of(run.pid()), std::pair(2000, 2000));
  EXPECT_EQ(open_files_of(daemons[0].pid), std::pair(2000, 2000));
  EXPECT_EQ(open_files_of(supervisors[0].pid), std::pair(2000, 2000));
  for (const Seen& worker : cluster.workers())
    EXPECT_EQ(open_files_of(worker.pid), std::pair(1000, 2000));

  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0);
}

TEST(Limits, MoreWorkersThanANodeHasOpenFilesForAreRefusedWithItsLimit) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {job_of(cluster, "hang", "num_workers: 64, resources_per_worker: {CPU: 0}")},
      with_open_files(64, 64));

  EXPECT_EQ(run.wait(), 1) << run.out() << run.err();

  const std::string cause = text_of(cluster.exit_json("job"), "cause");
  EXPECT_TRUE(
      contains(cause, "64 workers on a node need about 400 open files, but its limit is 64"))
      << cause;
  EXPECT_TRUE(nothing_left(cluster));
}

/// Return the entries of a run that users other than its owner can access.
std::vector<std::string> open_to_others(const std::string& folder, mode_t what) {
  std::vector<std::string> open;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    struct stat status {};
    if (::lstat(entry.path().c_str(), &status) == 0 && !S_ISLNK(status.st_mode) &&
        (status.st_mode & what) != 0)
      open.push_back(entry.path());
  }
  return open;
}

std::string sdk_job(const Cluster& cluster, const std::string& run_config = "") {
  return cluster.job("job",
                     "command: [" + program("sdk_worker") +
                         "]\ntrain_loop_config: {mode: epochs, epochs: 2}\n"
                         "scaling_config: {resources_per_worker: {CPU: 0}}",
                     run_config);
}

TEST(Limits, NobodyElseCanReadARun) {
  Cluster cluster;
  const mode_t before = ::umask(0);

  EXPECT_EQ(cluster.run({sdk_job(cluster)}), 0);

  ::umask(before);
  EXPECT_EQ(cluster.checkpoints("job").size(), 2u);
  EXPECT_EQ(open_to_others(cluster.storage(), 077), std::vector<std::string>{});
}

TEST(Limits, AGroupCanWhereTheSpecSaysSo) {
  Cluster cluster;
  const mode_t before = ::umask(077);

  EXPECT_EQ(cluster.run({sdk_job(cluster, "  umask: 027\n")}), 0);

  ::umask(before);
  const auto mode_of = [&](const std::string& name) {
    struct stat status {};
    EXPECT_EQ(::stat((cluster.run_dir("job") + name).c_str(), &status), 0) << name;
    return status.st_mode & 0777;
  };
  EXPECT_EQ(open_to_others(cluster.storage(), 027), std::vector<std::string>{});
  EXPECT_EQ(mode_of(""), 0750u);
  EXPECT_EQ(mode_of("/metrics.jsonl"), 0640u);
  EXPECT_EQ(mode_of("/attempts/000/ranks/0000/stdout.log"), 0640u);
  EXPECT_EQ(mode_of("/spec.yaml"), 0600u);  // it may hold secrets
}

}  // namespace
}  // namespace train::e2e
