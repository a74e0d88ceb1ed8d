#include "daemon/supervisor/limits/process_rules.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "lib/base/text_file.h"
#include "lib/base/user_account.h"

namespace train {
namespace {

/// Return what `body` returns in a child of this process.
int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int oom_score() {
  int score = 9999;
  std::ifstream("/proc/self/oom_score_adj") >> score;
  return score;
}

TEST(ProcessRules, OfAWorkerAreThoseOfTheSpec) {
  ProcessLimits limits;
  limits.umask = 0100027;
  limits.keep_capabilities = true;
  limits.rlimits = {{"nofile", 123}, {"core", -1}};

  const auto rules = worker_rules(limits);

  ASSERT_TRUE(rules);
  EXPECT_FALSE(rules->may_gain_privileges);
  EXPECT_TRUE(rules->keeps_capabilities);
  EXPECT_TRUE(rules->killed_for_memory_like_others);
  EXPECT_EQ(rules->ignored_signals, std::vector<int>{SIGUSR1});
  EXPECT_EQ(rules->umask, 027u);
  ASSERT_EQ(rules->limits.size(), 2u);
  for (const ResourceLimit& limit : rules->limits) {
    const bool files = limit.name == "nofile";
    EXPECT_EQ(limit.resource, files ? static_cast<int>(RLIMIT_NOFILE) : RLIMIT_CORE) << limit.name;
    EXPECT_EQ(limit.value, files ? 123 : RLIM_INFINITY) << limit.name;
  }
  EXPECT_FALSE(worker_rules({})->keeps_capabilities);
}

TEST(ProcessRules, EachNameOfALimitIsThatOfTheKernel) {
  const std::vector<std::pair<std::string, int>> all{
      {"as", RLIMIT_AS},         {"core", RLIMIT_CORE},   {"cpu", RLIMIT_CPU},
      {"data", RLIMIT_DATA},     {"fsize", RLIMIT_FSIZE}, {"memlock", RLIMIT_MEMLOCK},
      {"nofile", RLIMIT_NOFILE}, {"nproc", RLIMIT_NPROC}, {"stack", RLIMIT_STACK}};
  for (const auto& [name, resource] : all) {
    ProcessLimits limits;
    limits.rlimits = {{name, 0}};
    const auto rules = worker_rules(limits);
    ASSERT_TRUE(rules) << name;
    EXPECT_EQ(rules->limits.at(0).resource, resource) << name;
    EXPECT_EQ(rules->limits.at(0).value, 0u) << name;
  }
}

TEST(ProcessRules, ALimitAboveOursNeedsTheRightToRaiseIt) {
  const auto verdict = [](rlim_t wanted, bool privileged) {
    return in_child([&] {
      const rlimit ours{50, 60};
      if (::setrlimit(RLIMIT_NOFILE, &ours) != 0) return 100;
      if (!privileged && drop_capabilities() != 0) return 101;
      const auto checked = check_limits({.limits = {{RLIMIT_NOFILE, wanted, "nofile"}}});
      if (checked) return 0;
      const std::string value = wanted == RLIM_INFINITY ? "unlimited" : std::to_string(wanted);
      return checked.error().code == Errc::Permission &&
                     checked.error().message == "run_config.rlimits.nofile is " + value +
                                                    ", and this node allows at most 60"
                 ? 1
                 : 2;
    });
  };
  EXPECT_EQ(verdict(60, false), 0);
  EXPECT_EQ(verdict(61, false), 1);
  EXPECT_EQ(verdict(RLIM_INFINITY, false), 1);
  EXPECT_EQ(verdict(61, true), has_capability(CAP_SYS_RESOURCE) ? 0 : 1);
}

TEST(ProcessRules, HoldTheProcessThatTheyAreAppliedTo) {
  EXPECT_EQ(in_child([] {
              ::signal(SIGTERM, SIG_IGN);
              ProcessRules rules{.ignored_signals = {SIGUSR2},
                                 .umask = 027,
                                 .limits = {{RLIMIT_NOFILE, 33, "nofile"}}};
              if (apply_rules(rules) != 0) return 1;
              rlimit limit{};
              ::getrlimit(RLIMIT_NOFILE, &limit);
              if (limit.rlim_cur != 33 || limit.rlim_max != 33) return 2;
              if (::umask(0) != 027) return 3;
              struct sigaction action {};
              ::sigaction(SIGTERM, nullptr, &action);
              if (action.sa_handler != SIG_DFL) return 4;
              ::sigaction(SIGUSR2, nullptr, &action);
              return action.sa_handler == SIG_IGN ? 0 : 5;
            }),
            0);
}

TEST(ProcessRules, OfAProgramOfOursLeaveItsMaskAndItsMemoryScore) {
  const int before = oom_score();
  EXPECT_EQ(in_child([&] {
              ::umask(051);
              if (apply_rules({}) != 0) return 1;
              return ::umask(0) == 051 && oom_score() == before ? 0 : 2;
            }),
            0);
}

TEST(ProcessRules, ALimitThatCannotBeSetIsAnError) {
  EXPECT_EQ(in_child([] {
              return apply_rules({.limits = {{1000, 1, "speed"}}}) == EINVAL ? 0 : 1;
            }),
            0);
  ProcessRules unknown;
  unknown.limits = {{1000, 1, "speed"}};
  const auto checked = check_limits(unknown);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message, "reading the limit speed: Invalid argument");
}

// Under a limit of locked memory, allocations would fail once it is reached.
TEST(SparedProcess, KeepsItsPagesInMemoryWhereNothingLimitsThat) {
  const auto is_locked = [](rlim_t limit, bool may_exceed_it) {
    return in_child([&] {
      const rlimit wanted{limit, limit};
      if (::setrlimit(RLIMIT_MEMLOCK, &wanted) != 0) return 101;
      if (!may_exceed_it && drop_capabilities() != 0) return 102;
      keep_in_memory();
      const std::string status = read_text("/proc/self/status");
      return status.find("\nVmLck:\t       0 kB\n") == std::string::npos ? 1 : 0;
    });
  };
  EXPECT_EQ(is_locked(1 << 16, false), 0);
  if (!has_capability(CAP_IPC_LOCK)) GTEST_SKIP() << "needs root, or CAP_IPC_LOCK";
  EXPECT_EQ(is_locked(1 << 16, true), 1);
}

TEST(SparedProcess, HasTheScoreThatItAskedForUnlessSomebodyChoseAHigherOne) {
  const auto score_after = [](int before, int asked) {
    return in_child([&] {
      std::ofstream("/proc/self/oom_score_adj") << before << std::flush;
      if (oom_score() != before) return 101;
      ask_to_be_spared(asked);
      return oom_score() == asked ? 1 : oom_score() == before ? 2 : 3;
    });
  };
  if (oom_score() != 0) GTEST_SKIP() << "somebody chose an oom_score_adj for this process";
  EXPECT_EQ(score_after(0, 100), 1);  // raising it needs no privilege
  EXPECT_EQ(score_after(1, 100), 2);
  EXPECT_EQ(score_after(300, 400), 2);
}

}  // namespace
}  // namespace train
