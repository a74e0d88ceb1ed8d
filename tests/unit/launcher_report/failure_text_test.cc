#include "launcher/report/failure_text.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
#include <set>
#include <tuple>

#include "lib/base/exit_code.h"

namespace train {
namespace {

WorkerFailure exited(int code) {
  return {.kind = EndKind::Exited, .rank = 3, .node = "node-b", .end = {.status = code}};
}
WorkerFailure killed(int signal) {
  return {.kind = EndKind::Killed,
          .rank = 3,
          .node = "node-b",
          .end = {.signaled = true, .status = signal}};
}

FailureText text(std::string cause, std::string how_known) {
  return {std::move(cause), std::move(how_known)};
}

TEST(FailureText, NamesSignals) {
  EXPECT_EQ(failure_text(killed(SIGSEGV)),
            text("rank 3 on node-b was killed by SIGSEGV (segmentation fault)", "its wait status"));
  EXPECT_EQ(failure_text(killed(SIGKILL)),
            text("rank 3 on node-b was killed by SIGKILL",
                 "its wait status; trainrun did not send the signal"));
  WorkerFailure aborted = killed(SIGABRT);
  aborted.end.core_dumped = true;
  EXPECT_EQ(failure_text(aborted), text("rank 3 on node-b was killed by SIGABRT (abort: a failed "
                                        "assertion or an uncaught exception), core dumped",
                                        "its wait status"));
  WorkerFailure crashed = killed(SIGSEGV);
  crashed.end.crashed_in = "Model::forward (model.cc:41) <- main (main.cc:88)";
  crashed.end.core_dumped = true;
  EXPECT_EQ(failure_text(crashed).cause,
            "rank 3 on node-b was killed by SIGSEGV (segmentation fault) in Model::forward "
            "(model.cc:41) <- main (main.cc:88), core dumped");
  crashed.kind = EndKind::Exited;
  crashed.end = {.status = 139, .crashed_in = "f (a.cc:1)"};
  EXPECT_EQ(failure_text(crashed).cause,
            "rank 3 on node-b exited with code 139 (a shell's exit code for a command killed by "
            "SIGSEGV) in f (a.cc:1)");
  EXPECT_EQ(failure_text(killed(40)),
            text("rank 3 on node-b was killed by signal 40", "its wait status"));
}

TEST(FailureText, TellsAnOutOfMemoryKillFromOthers) {
  WorkerFailure failure = killed(SIGKILL);
  failure.end.oom_killed = true;
  EXPECT_EQ(failure_text(failure), text("rank 3 on node-b ran out of memory",
                                        "the kernel counted an out-of-memory kill in its cgroup"));
  EXPECT_EQ(exit_code_of({Outcome::Failed, failure, {}}), 137);
}

TEST(FailureText, SaysWhoseMemoryWasUsedUp) {
  const auto cause = [](const std::string& owner, std::uint64_t bytes, std::uint64_t used) {
    WorkerFailure failure = killed(SIGKILL);
    failure.end.oom_killed = true;
    failure.end.memory = {bytes, used, owner};
    return failure_text(failure).cause;
  };
  constexpr std::uint64_t kMebibyte = 1u << 20, kGibibyte = 1u << 30;
  EXPECT_EQ(cause("claim", 200 * kMebibyte, 200 * kMebibyte),
            "rank 3 on node-b ran out of memory: 200 MiB of the 200 MiB that it claimed");
  EXPECT_EQ(cause("slurm", 4 * kGibibyte, 4 * kGibibyte),
            "rank 3 on node-b ran out of memory: all 4 GiB that Slurm gave it are used");
  EXPECT_EQ(cause("pod", kGibibyte + kGibibyte / 2, 0),
            "rank 3 on node-b ran out of memory: all 1.5 GiB of its pod are used");
  EXPECT_EQ(cause("node", 0, 3 * kGibibyte),
            "rank 3 on node-b ran out of memory: its node had none left, and it used 3 GiB");
  EXPECT_EQ(cause("node", 0, 0), "rank 3 on node-b ran out of memory: its node had none left");
  EXPECT_EQ(cause("/user.slice", kGibibyte, 0),
            "rank 3 on node-b ran out of memory: all 1 GiB of the cgroup /user.slice are used");
}

TEST(FailureText, AWorkerWhoseChildRanOutOfMemoryDidSoItself) {
  WorkerFailure failure = exited(1);
  failure.end.oom_killed = true;
  failure.end.memory = {1u << 20, 1u << 20, "claim"};
  EXPECT_EQ(failure_text(failure).cause,
            "rank 3 on node-b ran out of memory: 1 MiB of the 1 MiB that it claimed");
  EXPECT_EQ(exit_code_of({Outcome::Failed, failure, {}}), 137);
}

TEST(FailureText, SaysThatAProcessWasRefused) {
  WorkerFailure failure = exited(3);
  failure.end.pids_limit_hit = 50;
  EXPECT_EQ(failure_text(failure).cause,
            "rank 3 on node-b exited with code 3, after it reached its limit of 50 processes and "
            "threads");
  failure.end.stop_requested = true;
  EXPECT_EQ(failure_text(failure).cause, "rank 3 on node-b was stopped");
}

TEST(FailureText, NamesExitCodes) {
  EXPECT_EQ(failure_text(exited(7)),
            text("rank 3 on node-b exited with code 7", "its wait status"));
  EXPECT_EQ(
      failure_text(exited(0)),
      text("rank 3 on node-b exited with code 0 before its training was done", "its wait status"));
  EXPECT_EQ(failure_text(exited(127)), text("rank 3 on node-b exited with code 127 (a shell's exit "
                                            "code for a command that is not found)",
                                            "its wait status"));
  EXPECT_EQ(failure_text(exited(139)), text("rank 3 on node-b exited with code 139 (a shell's exit "
                                            "code for a command killed by SIGSEGV)",
                                            "its wait status"));
}

TEST(FailureText, PrefersWhatUserCodeThrew) {
  WorkerFailure failure = exited(1);
  failure.end.error = UserError{"no such column: label", "std::runtime_error", ""};
  EXPECT_EQ(failure_text(failure),
            text("rank 3 on node-b failed with std::runtime_error: no such column: label",
                 "the error that the worker reported before it exited with code 1"));
}

TEST(FailureText, TakesTheFirstLineOfAnErrorThatIsNotBlank) {
  WorkerFailure failure = exited(1);
  failure.end.error = UserError{"\n \r\n  no such column: label\nand more", "KeyError", ""};
  EXPECT_EQ(failure_text(failure).cause,
            "rank 3 on node-b failed with KeyError: no such column: label");

  failure.end.error = UserError{"\n\n", "KeyError", ""};
  EXPECT_EQ(failure_text(failure).cause, "rank 3 on node-b failed with KeyError");
}

TEST(FailureText, NamesWhatNeverRanWasLostOrHung) {
  EXPECT_EQ(failure_text({.kind = EndKind::StartFailed,
                          .rank = 0,
                          .node = "a",
                          .end = {.status = ENOENT},
                          .program = "./vit"}),
            text("rank 0 on a could not be started: ./vit: No such file or directory",
                 "the system's error when executing it"));
  EXPECT_EQ(failure_text(
                {.kind = EndKind::Lost, .rank = 2, .node = "b", .detail = "no heartbeat for 10 s"}),
            text("rank 2 on b was lost: no heartbeat for 10 s", "silence of its node"));
  EXPECT_EQ(failure_text({.kind = EndKind::Hung,
                          .rank = 2,
                          .node = "b",
                          .detail = "rank 2 on b hangs in step: no sign of life for 10 min"}),
            text("rank 2 on b hangs in step: no sign of life for 10 min",
                 "the marks of its loop, and what the kernel counts of its processes"));
  EXPECT_EQ(failure_text({.kind = EndKind::Hung,
                          .rank = 2,
                          .node = "b",
                          .detail = "rank 2 on b hangs: it has done nothing for 10 min",
                          .marks = false}),
            text("rank 2 on b hangs: it has done nothing for 10 min",
                 "the state of its processes, and what they have used"));
}

TEST(FailureText, CallsAStoppedWorkerStopped) {
  WorkerFailure failure = killed(SIGTERM);
  failure.end.stop_requested = true;
  EXPECT_EQ(failure_text(failure),
            text("rank 3 on node-b was stopped", "trainrun asked it to stop"));
}

TEST(ExitCode, FollowsTheTable) {
  struct Row {
    Ending ending;
    int code;
  };
  const auto failed = [](WorkerFailure failure) {
    return Ending{Outcome::Failed, std::move(failure), std::nullopt};
  };
  const auto start_failed = [&](int error) {
    return failed({.kind = EndKind::StartFailed, .end = {.status = error}});
  };
  const auto refused = [](Errc error) { return Ending{Outcome::Refused, std::nullopt, error}; };
  const std::vector<Row> rows = {
      {{Outcome::Succeeded, std::nullopt, std::nullopt}, 0},
      {{Outcome::Interrupted, std::nullopt, std::nullopt}, 130},
      {{Outcome::Preempted, std::nullopt, std::nullopt}, 75},
      {{Outcome::Replaced, std::nullopt, std::nullopt}, 73},
      {{Outcome::Failed, std::nullopt, std::nullopt}, 1},
      {failed(exited(1)), 1},
      {failed(exited(2)), 1},  // 2 is our usage error
      {failed(exited(3)), 3},
      {failed(exited(63)), 63},
      {failed(exited(64)), 1},  // we use the sysexits
      {failed(exited(75)), 1},
      {failed(exited(139)), 1},
      {failed(exited(255)), 1},
      {failed(exited(0)), 1},
      {failed(killed(SIGKILL)), 137},
      {failed(killed(SIGSEGV)), 139},
      {failed(killed(SIGTERM)), 143},
      {failed({.kind = EndKind::Lost}), 1},
      {failed({.kind = EndKind::Hung}), 1},
      {start_failed(ENOENT), 127},
      {start_failed(EACCES), 126},
      {start_failed(ENOMEM), 1},
      {refused(Errc::InvalidArgument), 2},
      {refused(Errc::InvalidSpec), 78},
      {refused(Errc::NotFound), 66},
      {refused(Errc::Unavailable), 69},
      {refused(Errc::Timeout), 69},
      {refused(Errc::ResourceExhausted), 69},
      {refused(Errc::AlreadyExists), 73},
      {refused(Errc::Io), 74},
      {refused(Errc::NoSpace), 74},
      {refused(Errc::Protocol), 76},
      {refused(Errc::Permission), 77},
      {refused(Errc::Unauthenticated), 77},
      {refused(Errc::Corrupt), 65},
      {refused(Errc::Cancelled), 130},
      {refused(Errc::Fenced), 73},
      {refused(Errc::Internal), 70},
  };
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(exit_code_of(rows[i].ending), rows[i].code) << "row " << i;
}

/// A text of 1.2 MB once became one journal record.
TEST(FailureText, CutsAnErrorTextOfAnyLengthAndBytes) {
  const UserError error{"\xff" + std::string(1'200'000, 'x'), std::string(5'000, 'T'), ""};
  const WorkerFailure failure{.end = {.status = 1, .error = error}};

  const std::string cause = failure_text(failure).cause;

  EXPECT_LE(cause.size(), kCauseBytesMax + 100);
  EXPECT_TRUE(cause.starts_with("rank 0")) << cause;
  EXPECT_NE(cause.find("TTT...: \xEF\xBF\xBDxxx"), std::string::npos) << cause;
  EXPECT_TRUE(cause.ends_with("xxx..."));
}

TEST(ExitCode, EachIsInTheReadmeAndInTheManPage) {
  std::set<int> codes;
  for (const exit_code::Row& row : exit_code::kTable) EXPECT_TRUE(codes.insert(row.code).second);
  for (const Outcome outcome : {Outcome::Succeeded, Outcome::Interrupted, Outcome::Preempted})
    EXPECT_EQ(codes.count(exit_code_of({outcome, std::nullopt, std::nullopt})), 1u);
  for (int code = 0; code <= static_cast<int>(Errc::Internal); ++code) {
    EXPECT_EQ(codes.count(exit_code_of({Outcome::Refused, std::nullopt, static_cast<Errc>(code)})),
              1u);
  }

  for (const auto& [file, before, after] : {std::tuple{"/README.md", "\n| ", " |"},
                                            std::tuple{"/packaging/man/train-run.1", "\n", "\t"}}) {
    std::ifstream in(std::string(TRAIN_SOURCE_DIR) + file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (const int code : codes) {
      const std::string number = std::to_string(code);
      const bool told = text.find(before + number + after) != std::string::npos ||
                        text.find(before + number + ", ") != std::string::npos ||
                        text.find(", " + number + after) != std::string::npos;
      EXPECT_TRUE(told) << file << " does not tell of " << code;
    }
  }
}

}  // namespace
}  // namespace train
