// A traind that runs as root starts workers as other users (--run-as). The workers are these users
// in every respect; root does not use their folders, and they cannot use root's.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>

#include "tests/e2e/outer_group.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

// Every Debian has these users.
constexpr const char *kUser = "games", *kOtherUser = "backup";

uid_t uid_of(const std::string& name) {
  const passwd* entry = ::getpwnam(name.c_str());
  return entry == nullptr ? 0 : entry->pw_uid;
}

uid_t owner_of(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_uid : static_cast<uid_t>(-1);
}

class WorkerUser : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "running workers as another user needs root";
    if (uid_of(kUser) == 0 || uid_of(kOtherUser) == 0)
      GTEST_SKIP() << "this machine has no users " << kUser << " and " << kOtherUser;
    ::chmod(cluster.dir().c_str(), 0711);  // it contains the tests' programs and scripts
    const std::vector<std::string> as{"setpriv", "--reuid", std::to_string(uid_of(kUser)),
                                      "--clear-groups", "--"};
    if (cluster.start({program("plain_worker"), "exit", "0"}, {.env = {}, .prefix = as, .cwd = ""})
            .wait() != 0)
      GTEST_SKIP() << "another user cannot start what was built in " << built("");
    for (const char* user : {kUser, kOtherUser}) {
      fs::create_directory(folder_of(user));
      ASSERT_EQ(::chown(folder_of(user).c_str(), uid_of(user), 0), 0);
    }
  }
  // Cluster finds its processes by their environment, but supervisors do not inherit it.
  void TearDown() override {
    for (const pid_t pid : supervisors()) send_signal(pid, SIGKILL);
  }
  std::vector<pid_t> supervisors() const {
    std::vector<pid_t> found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string words = read_file(entry.path().string() + "/cmdline");
      if (contains(words, "supervise") && contains(words, cluster.path("spool")))
        found.push_back(std::atoi(entry.path().filename().c_str()));
    }
    return found;
  }
  Process& start_traind(std::vector<std::string> more = {"--run-as", kUser, "--run-as", kOtherUser},
                        const std::vector<std::string>& prefix = {}) {
    std::vector<std::string> arguments{
        "--runtime-dir", cluster.path("node"), "--spool-dir", cluster.path("spool"),
        "--data-dir",    cluster.path("data"), "--listen",    socket()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Process& traind = cluster.traind(
        arguments, {.env = {{"ROOTS_SECRET", "canary-of-root"}}, .prefix = prefix, .cwd = ""});
    EXPECT_TRUE(wait_until([&] { return contains(traind.err(), "msg=listening"); }))
        << traind.err();
    return traind;
  }
  std::string socket() const { return "unix:" + cluster.path("node/traind.sock"); }
  std::string folder_of(const std::string& user) const { return cluster.path("of-" + user); }
  std::string job(const std::string& command, const std::string& user = "",
                  const std::string& scaling = "num_workers: 1, resources_per_worker: {CPU: 0}") {
    return cluster.job("job",
                       fmt::format("command: {}\nscaling_config: {{{}}}\n"
                                   "cluster: {{nodes: [\"{}\"]}}\n",
                                   command, scaling, socket()),
                       user.empty() ? "" : "  user: " + user + "\n");
  }
  /// Return a job command that runs a shell script; its stdout is in the run's output.
  std::string shell(const std::string& script) const {
    return "[/bin/sh, " + cluster.write("script.sh", script) + "]";
  }
  /// Return sockets and spools of attempts, and checkpoints of ended runs.
  std::vector<std::string> left(const std::vector<std::string>& folders = {"spool", "data"}) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(cluster.path("node"))) {
      if (entry.path().filename().string().starts_with("s-")) found.push_back(entry.path());
    }
    for (const std::string& folder : folders) {
      for (const char* user : {kUser, kOtherUser}) {
        const std::string own = fmt::format("{}/user-{}", cluster.path(folder), uid_of(user));
        if (!exists(own)) continue;
        for (const auto& entry : fs::directory_iterator(own)) found.push_back(entry.path());
      }
    }
    return found;
  }

  const LimitingGroup group_;
  Cluster cluster;
};

TEST_F(WorkerUser, AWorkerIsTheUserWhomTraindNames) {
  start_traind();
  const std::string script = shell(
      "id -un; id -u; id -G; echo home=$HOME user=$USER logname=$LOGNAME runtime=$XDG_RUNTIME_DIR\n"
      "grep -E '^(NoNewPrivs|CapEff|CapPrm|Uid):' /proc/self/status\n"
      "echo score=$(cat /proc/$PPID/oom_score_adj) errors=$(readlink /proc/$PPID/fd/2)\n"
      "cat /proc/$PPID/environ | tr '\\0' '\\n'\n"
      "echo mine > " +
      folder_of(kUser) + "/made; cat /etc/shadow; ls " + cluster.path("node") + "\ntrue\n");
  ::chmod(cluster.path("script.sh").c_str(), 0644);

  Process& run = cluster.train_run({job(script)});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  const std::string said = run.out() + run.err();
  const passwd* user = ::getpwnam(kUser);
  EXPECT_TRUE(contains(said, std::string("] ") + kUser + "\n")) << said;
  EXPECT_TRUE(contains(
      said, fmt::format("home={} user={} logname={} runtime=\n", user->pw_dir, kUser, kUser)))
      << said;
  EXPECT_TRUE(contains(said, "NoNewPrivs:\t1") && contains(said, "CapEff:\t0000000000000000") &&
              contains(said, "CapPrm:\t0000000000000000"))
      << said;
  EXPECT_TRUE(contains(said, fmt::format("Uid:\t{0}\t{0}\t{0}\t{0}", user->pw_uid))) << said;
  EXPECT_TRUE(contains(said, fmt::format("] {}\n", user->pw_gid)))
      << "other groups than its user's: " << said;
  // The supervisor's score and errors: its user could ask it for anything that it may do.
  EXPECT_TRUE(contains(said, "score=0 errors=pipe:")) << said;
  EXPECT_FALSE(contains(said, "canary-of-root")) << "the supervisor has root's environment";
  EXPECT_TRUE(contains(said, "/etc/shadow: Permission denied")) << said;
  EXPECT_TRUE(contains(said, cluster.path("node") + "': Permission denied")) << said;
  EXPECT_EQ(owner_of(folder_of(kUser) + "/made"), user->pw_uid);
  EXPECT_TRUE(wait_until([&] { return left().empty(); })) << left().front();
}

// What serves PMIx to workers reads what they write, so it may do no more than they.
TEST_F(WorkerUser, PmixIsServedByTheUserToo) {
  if (openmpi_4_python().empty()) GTEST_SKIP() << "Debian's python3-mpi4py is not installed";
  start_traind();
  cluster.write("mpi.py",
                "import os, subprocess\nfrom mpi4py import MPI\n"
                "assert MPI.COMM_WORLD.allreduce(1) == 2\n"
                "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
                "    try:\n"
                "        name = open(f'/proc/{pid}/comm').read().strip()\n"
                "        if name == 'trainrun-pmix': print('by', os.stat(f'/proc/{pid}').st_uid)\n"
                "    except OSError: pass\n");
  ::chmod(cluster.path("mpi.py").c_str(), 0644);

  Process& run =
      cluster.train_run({job(fmt::format("[{}, {}]\nbackend: mpi\nbackend_config: {{pmi: pmix}}",
                                         openmpi_4_python(), cluster.path("mpi.py")),
                             "", "num_workers: 2, resources_per_worker: {CPU: 0}")});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), fmt::format("by {}\n", uid_of(kUser)))) << run.out();
  EXPECT_TRUE(wait_until([&] { return left().empty(); })) << left().front();
}

TEST_F(WorkerUser, TheSpecNamesOneOfThem) {
  Process& traind = start_traind();

  EXPECT_EQ(cluster.run({job("[id, -un]", kOtherUser)}), 0);
  EXPECT_TRUE(contains(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0000/stdout.log"),
                       kOtherUser));
  EXPECT_TRUE(contains(traind.err(), std::string("workers_as=") + kOtherUser)) << traind.err();

  for (const char* user : {"root", "daemon", "no-such-user"}) {
    fs::remove_all(cluster.run_dir("job"));
    Process& refused = cluster.train_run({job("[echo, hello]", user)});
    EXPECT_EQ(refused.wait(), 77) << refused.out() << refused.err();
    EXPECT_TRUE(contains(refused.out() + refused.err(),
                         fmt::format("this node does not run workers as {} for this run", user)))
        << refused.out() << refused.err();
  }
}

TEST_F(WorkerUser, WhoIsNotRootRunsThemAsItselfOnly) {
  const std::string id = std::to_string(uid_of(kUser));
  const std::vector<std::string> as{"setpriv", "--reuid",        id,  "--regid",
                                    id,        "--clear-groups", "--"};
  const std::vector<std::string> folders{
      "--runtime-dir", folder_of(kUser) + "/rt",
      "--spool-dir",   folder_of(kUser) + "/spool",
      "--listen",      "unix:" + folder_of(kUser) + "/rt/t.sock"};
  std::vector<std::string> arguments{"--run-as", kOtherUser};
  arguments.insert(arguments.end(), folders.begin(), folders.end());

  Process& refused = cluster.traind(arguments, {.env = {}, .prefix = as, .cwd = ""});
  EXPECT_EQ(refused.wait(), 78);
  EXPECT_EQ(
      refused.err(),
      fmt::format("traind: error: {} cannot run workers as {}\n"
                  "traind: start traind as root, with CAP_SETUID and CAP_SETGID, or as that user\n",
                  kUser, kOtherUser));
  arguments[1] = kUser;
  Process& own = cluster.traind(arguments, {.env = {}, .prefix = as, .cwd = ""});
  EXPECT_TRUE(wait_until([&] { return contains(own.err(), "msg=listening"); })) << own.err();
}

// Who comes by ssh: another user has made the folders of traind's sockets first.
TEST_F(WorkerUser, NobodyCanBarAnotherFromAHost) {
  const std::string id = std::to_string(uid_of(kUser));
  const std::string bar =
      "mount -t tmpfs none /tmp && chmod 1777 /tmp && mkdir -m 700 /tmp/trainrun-$0 "
      "/tmp/trainrun-$0-ssh && exec setpriv --reuid $0 --regid $0 --clear-groups -- \"$@\"";
  Process& dial = cluster.start(
      {"unshare", "--mount", "--propagation", "private", "sh", "-c", bar, id, "env", "-u",
       "XDG_RUNTIME_DIR", built("traind"), "dial-stdio"},
      {.env = {{"SSH_CONNECTION", "10.0.0.1 1 10.0.0.2 22"}}, .prefix = {}, .cwd = ""});
  EXPECT_EQ(dial.wait(), 0) << dial.err();
  EXPECT_EQ(dial.out(), "traind-dial 1 10.0.0.2\n");
}

TEST_F(WorkerUser, RootIsOneOfThemWithAllowRootOnlyAndNobodyUnknownIs) {
  const std::vector<std::string> folders{"--runtime-dir",       cluster.path("node"), "--spool-dir",
                                         cluster.path("spool"), "--listen",           socket()};
  const auto end_with = [&](std::vector<std::string> arguments) -> std::string {
    arguments.insert(arguments.end(), folders.begin(), folders.end());
    Process& traind = cluster.traind(arguments);
    EXPECT_EQ(traind.wait(), 78) << traind.err();
    return traind.err();
  };
  EXPECT_TRUE(contains(end_with({"--run-as", kUser, "--run-as", "root"}),
                       "refusing to run workers as root"));
  EXPECT_TRUE(contains(end_with({"--run-as", "no-such-user"}),
                       "there is no user no-such-user on this machine"));
  fs::create_directory(cluster.path("closed"));
  ::chmod(cluster.path("closed").c_str(), 0700);
  EXPECT_TRUE(
      contains(end_with({"--run-as", kUser, "--data-dir", cluster.path("closed/data")}),
               std::string("the user ") + kUser + " may not enter " + cluster.path("closed/data")));
}

TEST_F(WorkerUser, WhatAUserDoesToTheirFoldersKeepsNobodyFromStarting) {
  Process& first = start_traind();
  first.signal(SIGINT);
  ASSERT_EQ(first.wait(), 0);
  const std::string own = fmt::format("{}/user-{}", cluster.path("spool"), uid_of(kUser));
  ::chmod(own.c_str(), 0777);
  ::chmod(fmt::format("{}/user-{}", cluster.path("data"), uid_of(kUser)).c_str(), 0);

  start_traind();

  struct stat found {};
  ASSERT_EQ(::stat(own.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0700u);
  EXPECT_EQ(cluster.run({job("[id, -un]")}), 0);
}

TEST_F(WorkerUser, ARunStaysItsUsers) {
  start_traind();
  const std::string command = "[" + program("plain_worker") + ", hang]";
  Process& run = cluster.train_run({job(command, kUser)});
  ASSERT_TRUE(wait_until([&] { return cluster.workers().size() == 1; })) << run.out() << run.err();
  run.signal(SIGKILL);
  ASSERT_TRUE(run.wait());
  // Whoever has the run's folder, and may run workers as another user, resumes it.
  const std::string spec = cluster.run_dir("job") + "/spec.resolved.yaml";
  const std::string text = cluster.read(spec), mine = std::string("user: ") + kUser;
  ASSERT_TRUE(contains(text, mine)) << text;
  std::string changed = text;
  changed.replace(text.find(mine), mine.size(), std::string("user: ") + kOtherUser);
  std::ofstream(spec) << changed;

  Process& resumed = cluster.train_run({"resume", cluster.run_dir("job")});

  EXPECT_EQ(resumed.wait(), 77) << resumed.out() << resumed.err();
  EXPECT_TRUE(contains(resumed.out() + resumed.err(),
                       fmt::format("attempt 0 of this run still runs as uid {} here, not as {}",
                                   uid_of(kUser), kOtherUser)))
      << resumed.out() << resumed.err();
  EXPECT_EQ(cluster.workers().size(), 1u);
}

TEST_F(WorkerUser, CheckpointsComeFromTheUsersFoldersToTheRuns) {
  start_traind();
  const std::string config =
      "train_loop_config: {mode: epochs, epochs: 6, die_rank: 1, die_epoch: 3, die_attempts: 1}\n";
  const std::string path =
      cluster.job("job",
                  "command: [" + program("sdk_worker") + "]\n" + config +
                      "scaling_config: {num_workers: 2, resources_per_worker: {CPU: 0}}\n"
                      "cluster: {nodes: [\"" +
                      socket() + "\"]}\n",
                  "  failure_config: {max_failures: 1}\n");

  Process& run = cluster.train_run({path});

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_FALSE(cluster.checkpoints("job").empty());
  EXPECT_TRUE(contains(run.out(), "restored epoch")) << run.out();
  EXPECT_TRUE(wait_until([&] { return left().empty(); })) << left().front();
}

TEST_F(WorkerUser, WhatTheUserClaimsIsWhatTheUserGets) {
  if (!can_limit("memory")) GTEST_SKIP() << kCannotLimit;
  start_traind({"--run-as", kUser}, group_.inside().prefix);

  EXPECT_EQ(cluster.run({job("[" + program("plain_worker") + ", eat, 400]", "",
                             "resources_per_worker: {CPU: 0, memory: 200MiB}")}),
            137);

  EXPECT_TRUE(contains(text_of(cluster.exit_json("job"), "cause"),
                       " ran out of memory: 200 MiB of the 200 MiB that it claimed"))
      << text_of(cluster.exit_json("job"), "cause");
}

TEST_F(WorkerUser, TheUsersSupervisorIsFoundAgainAndReapedByTheNextTraind) {
  Process& first = start_traind();
  const std::string path = job("[" + program("plain_worker") + ", family, hang]");
  Process& run = cluster.train_run({path});
  ASSERT_TRUE(wait_until([&] { return cluster.processes("family hang").size() >= 4; }))
      << run.out() << run.err();
  const pid_t supervisor = supervisors().at(0);
  EXPECT_EQ(owner_of(fmt::format("/proc/{}", supervisor)), uid_of(kUser));
  first.signal(SIGKILL);
  ASSERT_TRUE(first.wait());

  Process& second = start_traind();
  ASSERT_TRUE(wait_until([&] { return contains(second.err(), "found a supervisor again"); }))
      << second.err();
  EXPECT_FALSE(cluster.processes("family hang").empty());
  second.signal(SIGKILL);
  ASSERT_TRUE(second.wait());
  send_signal(supervisor, SIGKILL);
  run.signal(SIGKILL);
  ASSERT_TRUE(run.wait());

  Process& third = start_traind();
  EXPECT_TRUE(wait_until([&] {
    return contains(third.err(), "killing the processes that a dead supervisor left behind");
  })) << third.err();
  EXPECT_TRUE(wait_until([&] {
    return cluster.processes("family hang").empty() && left({"spool"}).empty();
  })) << third.err();
}

}  // namespace
}  // namespace train::e2e
