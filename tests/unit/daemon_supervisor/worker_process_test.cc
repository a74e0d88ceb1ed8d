// What a worker inherits at its start, whatever its supervisor inherited.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

/// Return rank 0's output, up to its end.
std::string output_of(SupervisorProcess& supervisor, const std::string& script) {
  supervisor.attach(1);
  supervisor.start({script});
  supervisor.attach(1);  // resend what came before WorkersStarted
  std::string text;
  for (;;) {
    const auto chunk = supervisor.wait_for<OutputChunk>();
    if (chunk.stream != 1 || chunk.offset > text.size()) continue;
    if (const std::size_t known = text.size() - chunk.offset; known < chunk.data.size())
      text += chunk.data.substr(known);
    if (chunk.end) return text;
  }
}

/// Return a line of /proc/self/status.
std::string field(const std::string& status, const std::string& name) {
  std::istringstream lines(status);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with(name + ":\t")) return line.substr(name.size() + 2);
  }
  return "no " + name;
}

constexpr std::string_view kNone = "0000000000000000";

TEST(WorkerProcess, HasNoPrivileges) {
  SupervisorProcess supervisor;

  const std::string status = output_of(supervisor, "exec cat /proc/self/status");

  EXPECT_EQ(field(status, "NoNewPrivs"), "1");
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"})
    EXPECT_EQ(field(status, set), kNone) << set;
  if (::prctl(PR_CAPBSET_READ, 8 /* CAP_SETPCAP */) == 1 && ::geteuid() == 0)
    EXPECT_EQ(field(status, "CapBnd"), kNone);
}

/// Set the action of signal 32, and return the old one. glibc reserves this signal, and leaves it
/// ignored in programs that make(1) starts.
std::array<std::uint64_t, 4> handle_32(std::array<std::uint64_t, 4> action) {
  std::array<std::uint64_t, 4> before{};
  ::syscall(SYS_rt_sigaction, 32, action.data(), before.data(), sizeof(std::uint64_t));
  return before;
}

TEST(WorkerProcess, HasItsSignalsAsTheyAreByDefaultButForSlurmsWarning) {
  sigset_t blocked, before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR2);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  const auto before_hup = ::signal(SIGHUP, SIG_IGN), before_quit = ::signal(SIGQUIT, SIG_IGN);
  const auto before_32 = handle_32({reinterpret_cast<std::uint64_t>(SIG_IGN)});
  SupervisorProcess supervisor;
  handle_32(before_32);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  ::signal(SIGHUP, before_hup);
  ::signal(SIGQUIT, before_quit);

  const std::string status = output_of(supervisor, "exec cat /proc/self/status");

  EXPECT_EQ(field(status, "SigIgn"), "0000000000000200");  // SIGUSR1
  EXPECT_EQ(field(status, "SigBlk"), kNone);
}

TEST(WorkerProcess, HasASessionOfItsOwn) {
  SupervisorProcess supervisor;

  std::istringstream stat(output_of(supervisor, "exec cat /proc/self/stat"));  // "17 (cat) R …"

  std::string name, state;
  pid_t pid = 0, parent = 0, group = 0, session = 0;
  ASSERT_TRUE(stat >> pid >> name >> state >> parent >> group >> session);
  EXPECT_EQ(session, pid);
  EXPECT_EQ(group, pid);
}

TEST(WorkerProcess, HasNoDescriptorsOfOthers) {
  const int left_open = ::fcntl(STDIN_FILENO, F_DUPFD, 40);
  SupervisorProcess supervisor;
  ::close(left_open);

  EXPECT_EQ(output_of(supervisor, "exec ls /proc/self/fd"), "0\n1\n2\n3\n");  // 3: ls's own
}

TEST(WorkerProcess, KeepsCapabilitiesWhereTheSpecSaysSoAndGainsNone) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: others have none to keep";
  std::ifstream own("/proc/self/status");
  const std::string ours{std::istreambuf_iterator<char>(own), {}};
  SupervisorProcess supervisor;
  supervisor.order().limits.keep_capabilities = true;

  const std::string status = output_of(supervisor, "exec cat /proc/self/status");

  EXPECT_EQ(field(status, "CapEff"), field(ours, "CapEff"));
  EXPECT_EQ(field(status, "NoNewPrivs"), "1");
}

TEST(WorkerProcess, HasTheLimitsAndTheUmaskOfTheSpec) {
  SupervisorProcess supervisor;
  supervisor.order().limits.umask = 027;
  supervisor.order().limits.rlimits = {{"nofile", 123}, {"core", 0}};

  EXPECT_EQ(output_of(supervisor, "umask; ulimit -Sn; ulimit -Hn; ulimit -c"),
            "0027\n123\n123\n0\n");
}

TEST(WorkerProcess, LeavesItsFilesToTheirOwnerUnlessTheSpecSaysOtherwise) {
  SupervisorProcess supervisor;

  EXPECT_EQ(output_of(supervisor, "umask"), "0077\n");
}

TEST(WorkerProcess, IsNotStartedUnderALimitThatIsNotKnown) {
  SupervisorProcess supervisor;
  supervisor.order().limits.rlimits = {{"speed", 1}};
  supervisor.attach(1);

  supervisor.prepare(1);

  const auto failed = supervisor.wait_for<StartFailed>();
  EXPECT_EQ(failed.code, "invalid_argument");
  EXPECT_EQ(failed.message, "run_config.rlimits.speed is not a limit that this traind knows");
}

/// Writes another score for this process, and restores it afterwards.
class OomScore {
 public:
  explicit OomScore(const char* text) {
    std::ifstream("/proc/self/oom_score_adj") >> before_;
    set_ = write(text);
  }
  ~OomScore() { write(before_); }
  OomScore(const OomScore&) = delete;
  OomScore& operator=(const OomScore&) = delete;
  bool set() const { return set_; }

 private:
  static bool write(const std::string& text) {
    std::ofstream file("/proc/self/oom_score_adj");
    return static_cast<bool>((file << text).flush());
  }
  std::string before_;
  bool set_ = false;
};

TEST(WorkerProcess, IsNotSparedWhenMemoryIsShort) {
  const OomScore spared("-900");
  if (!spared.set()) GTEST_SKIP() << "needs root, or CAP_SYS_RESOURCE";
  SupervisorProcess supervisor;

  EXPECT_EQ(output_of(supervisor, "exec cat /proc/self/oom_score_adj"), "0\n");
}

TEST(WorkerProcess, KeepsAScoreThatMakesItTheFirstToGo) {
  const OomScore first("300");
  if (!first.set()) GTEST_SKIP() << "needs /proc/self/oom_score_adj";
  SupervisorProcess supervisor;

  EXPECT_EQ(output_of(supervisor, "exec cat /proc/self/oom_score_adj"), "300\n");
}

TEST(Supervisor, IsSparedWhenMemoryIsShort) {
  if (const OomScore may("-1"); !may.set()) GTEST_SKIP() << "needs root, or CAP_SYS_RESOURCE";
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.start({"exec sleep 1000"});

  std::string score;
  std::ifstream("/proc/" + std::to_string(supervisor.pid()) + "/oom_score_adj") >> score;
  EXPECT_EQ(score, "-500");
}

TEST(Supervisor, IsNotEndedBySignalsThatSlurmSendsToAWholeStep) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.start({"exec sleep 1000"});

  for (const int number : {SIGTERM, SIGUSR1, SIGINT, SIGHUP}) supervisor.signal(number);

  supervisor.attach(2);
  EXPECT_EQ(supervisor.wait_for<AttemptSnapshot>().alive.size(), 1u);
}

}  // namespace
}  // namespace train
