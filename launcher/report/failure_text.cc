#include "launcher/report/failure_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "lib/base/exit_code.h"
#include "lib/base/size_text.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

struct SignalWords {
  int number;
  std::string_view name;
  std::string_view meaning;  // empty: the name suffices
};

constexpr std::array kSignals = {
    SignalWords{SIGHUP, "SIGHUP", "its terminal went away"},
    SignalWords{SIGINT, "SIGINT", "interrupt"},
    SignalWords{SIGQUIT, "SIGQUIT", "quit"},
    SignalWords{SIGILL, "SIGILL", "illegal instruction: was it built for another CPU?"},
    SignalWords{SIGTRAP, "SIGTRAP", "trap"},
    SignalWords{SIGABRT, "SIGABRT", "abort: a failed assertion or an uncaught exception"},
    SignalWords{SIGBUS, "SIGBUS", "bus error: often a full /dev/shm or a truncated mapped file"},
    SignalWords{SIGFPE, "SIGFPE", "arithmetic error, such as an integer division by zero"},
    SignalWords{SIGKILL, "SIGKILL", ""},
    SignalWords{SIGUSR1, "SIGUSR1", ""},
    SignalWords{SIGSEGV, "SIGSEGV", "segmentation fault"},
    SignalWords{SIGUSR2, "SIGUSR2", ""},
    SignalWords{SIGPIPE, "SIGPIPE", "wrote to a closed pipe or socket"},
    SignalWords{SIGALRM, "SIGALRM", "alarm"},
    SignalWords{SIGTERM, "SIGTERM", ""},
    SignalWords{SIGXCPU, "SIGXCPU", "CPU time limit"},
    SignalWords{SIGXFSZ, "SIGXFSZ", "file size limit"},
    SignalWords{SIGSYS, "SIGSYS", "a system call that is not allowed"},
};

const SignalWords* words_of(int signal) {
  for (const SignalWords& words : kSignals) {
    if (words.number == signal) return &words;
  }
  return nullptr;
}

std::string who(const WorkerFailure& failure) {
  std::string text = fmt::format("rank {}", failure.rank);
  if (!failure.role.empty()) text += fmt::format(" ({})", failure.role);
  if (!failure.node.empty()) text += fmt::format(" on {}", failure.node);
  return text;
}

std::string whole_size_text(std::uint64_t bytes) {
  std::string text = size_text(bytes);
  if (const auto point = text.find(".0 "); point != std::string::npos) text.erase(point, 2);
  return text;
}

std::string memory_text(const MemoryLimit& memory) {
  const std::string limit = whole_size_text(memory.bytes), used = whole_size_text(memory.used);
  if (memory.owner == "claim") return fmt::format(": {} of the {} that it claimed", used, limit);
  if (memory.owner == "slurm") return fmt::format(": all {} that Slurm gave it are used", limit);
  if (memory.owner == "pod" || memory.owner == "container")
    return fmt::format(": all {} of its {} are used", limit, memory.owner);
  if (memory.owner == "node" && memory.used > 0)
    return fmt::format(": its node had none left, and it used {}", used);
  if (memory.owner == "node") return ": its node had none left";
  if (memory.owner.empty()) return "";
  return fmt::format(": all {} of the cgroup {} are used", limit, memory.owner);
}

FailureText out_of_memory_text(const WorkerFailure& failure) {
  return {fmt::format("{} ran out of memory{}", who(failure), memory_text(failure.end.memory)),
          "the kernel counted an out-of-memory kill in its cgroup"};
}

/// Return " in Model::forward (model.cc:41)", or "".
std::string crash_place(const WorkerFailure& failure) {
  return failure.end.crashed_in.empty() ? "" : " in " + failure.end.crashed_in;
}

FailureText killed_text(const WorkerFailure& failure) {
  const SignalWords* words = words_of(failure.end.status);
  const std::string meaning =
      words == nullptr || words->meaning.empty() ? "" : fmt::format(" ({})", words->meaning);
  const std::string_view core = failure.end.core_dumped ? ", core dumped" : "";
  const std::string_view sender = failure.end.status == SIGKILL || failure.end.status == SIGTERM
                                      ? "its wait status; trainrun did not send the signal"
                                      : "its wait status";
  return {fmt::format("{} was killed by {}{}{}{}", who(failure), signal_name(failure.end.status),
                      meaning, crash_place(failure), core),
          std::string(sender)};
}

// Return a remark on the code. A shell exits with 126, 127 or 128+signal for one of its commands:
// the code alone would send people looking in the wrong place.
std::string code_remark(int code) {
  if (code == 126) return " (a shell's exit code for a command that is not executable)";
  if (code == 127) return " (a shell's exit code for a command that is not found)";
  if (code > 128 && words_of(code - 128) != nullptr) {
    return fmt::format(" (a shell's exit code for a command killed by {})",
                       signal_name(code - 128));
  }
  return "";
}

// Return the first line that is not blank, without the white space before it.
std::string_view first_words(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text.substr(0, text.find('\n'));
}

FailureText exited_text(const WorkerFailure& failure) {
  if (!failure.thrown().empty()) {
    const UserError& error = *failure.end.error;
    const std::string first_line =
        utf8_text(first_words(error.what), kCauseBytesMax - kErrorTypeBytesMax);
    const std::string_view between = error.type.empty() || first_line.empty() ? "" : ": ";
    return {fmt::format("{} failed with {}{}{}", who(failure),
                        utf8_text(error.type, kErrorTypeBytesMax), between, first_line),
            fmt::format("the error that the worker reported before it exited with code {}",
                        failure.end.status)};
  }
  if (failure.end.status == 0)
    return {fmt::format("{} exited with code 0 before its training was done", who(failure)),
            "its wait status"};
  return {fmt::format("{} exited with code {}{}{}", who(failure), failure.end.status,
                      code_remark(failure.end.status), crash_place(failure)),
          "its wait status"};
}

int start_failure_code(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return exit_code::kNoSuchCommand;
    case EACCES:
    case EPERM:
    case ENOEXEC:
      return exit_code::kCannotExecute;
    default:
      return 1;
  }
}

int root_code(const WorkerFailure& failure) {
  if (failure.end.oom_killed) return 128 + SIGKILL;
  switch (failure.kind) {
    case EndKind::Exited:
      return failure.end.status == 1 || (failure.end.status >= 3 && failure.end.status <= 63)
                 ? failure.end.status
                 : 1;
    case EndKind::Killed:
      return 128 + failure.end.status;
    case EndKind::StartFailed:
      return start_failure_code(failure.end.status);
    case EndKind::Lost:
    case EndKind::Hung:
      break;
  }
  return 1;
}

int refusal_code(Errc error) {
  switch (error) {
    case Errc::InvalidArgument:
      return exit_code::kUsage;
    case Errc::InvalidSpec:
      return exit_code::kBadSpec;
    case Errc::NotFound:
      return exit_code::kNotFound;
    case Errc::AlreadyExists:
    case Errc::Fenced:
      return exit_code::kTaken;
    case Errc::Permission:
    case Errc::Unauthenticated:
      return exit_code::kPermission;
    case Errc::Unavailable:
    case Errc::Timeout:
    case Errc::ResourceExhausted:
      return exit_code::kUnavailable;
    case Errc::Cancelled:
      return exit_code::kInterrupted;
    case Errc::Io:
    case Errc::NoSpace:
      return exit_code::kIo;
    case Errc::Protocol:
      return exit_code::kProtocol;
    case Errc::Corrupt:
      return exit_code::kDamaged;
    case Errc::Internal:
      break;
  }
  return exit_code::kBug;
}

FailureText end_text(const WorkerFailure& failure) {
  if (failure.end.stop_requested &&
      (failure.kind == EndKind::Killed || failure.kind == EndKind::Exited)) {
    return {fmt::format("{} was stopped", who(failure)), "trainrun asked it to stop"};
  }
  if (failure.end.oom_killed) return out_of_memory_text(failure);
  switch (failure.kind) {
    case EndKind::Exited:
      return exited_text(failure);
    case EndKind::Killed:
      return killed_text(failure);
    case EndKind::Lost:
      return {fmt::format("{} was lost{}{}", who(failure), failure.detail.empty() ? "" : ": ",
                          failure.detail),
              "silence of its node"};
    case EndKind::StartFailed:
      return {fmt::format("{} could not be started: {}: {}", who(failure), failure.program,
                          std::strerror(failure.end.status)),
              "the system's error when executing it"};
    case EndKind::Hung:
      return {failure.detail,
              failure.marks ? "the marks of its loop, and what the kernel counts of its processes"
                            : "the state of its processes, and what they have used"};
  }
  return {};
}

}  // namespace

std::string signal_name(int signal) {
  const SignalWords* words = words_of(signal);
  return words != nullptr ? std::string(words->name) : fmt::format("signal {}", signal);
}

std::string WorkerFailure::thrown() const {
  if (!end.error) return "";
  const UserError& error = *end.error;
  return error.type + (error.type.empty() || error.what.empty() ? "" : ": ") + error.what;
}

FailureText failure_text(const WorkerFailure& failure) {
  FailureText text = end_text(failure);
  const WorkerEnd& end = failure.end;
  if (end.pids_limit_hit > 0 && !end.stop_requested && !end.oom_killed) {
    text.cause +=
        fmt::format(", after it reached its limit of {} processes and threads", end.pids_limit_hit);
  }
  return text;
}

int exit_code_of(const Ending& ending) {
  switch (ending.outcome) {
    case Outcome::Succeeded:
      return exit_code::kOk;
    case Outcome::Failed:
      return ending.root ? root_code(*ending.root) : exit_code::kFailed;
    case Outcome::Interrupted:
      return exit_code::kInterrupted;
    case Outcome::Preempted:
      return exit_code::kRequeue;
    case Outcome::Refused:
      return ending.error ? refusal_code(*ending.error) : exit_code::kBug;
    case Outcome::Replaced:
      return refusal_code(Errc::Fenced);
  }
  return exit_code::kBug;
}

}  // namespace train
