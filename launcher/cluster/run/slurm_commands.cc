#include "launcher/cluster/run/slurm_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "launcher/core/slurm_allocation.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/spawn.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kAnswerBytesMax = 64u << 10, kShownBytesMax = 512;

struct Reader {
  FileDescriptor end = FileDescriptor();
  std::string text = {};
};

/// Read what there is. Close the pipe once there will be no more.
void read_more(Reader& reader) {
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t size = ::read(reader.end.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) return reader.end.reset();
    const std::size_t room = kAnswerBytesMax - reader.text.size();
    reader.text.append(piece.data(), std::min(room, static_cast<std::size_t>(size)));
  }
}

Result<FileDescriptor> open_reader(Reader& reader) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  reader.end.reset(ends[0]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return FileDescriptor(ends[1]);
}

}  // namespace

Result<std::string> run_slurm_command(const std::vector<std::string>& argv) {
  Reader output, errors;
  pid_t pid = 0;
  {
    TRY(const FileDescriptor to_output, open_reader(output));
    TRY(const FileDescriptor to_errors, open_reader(errors));
    SpawnActions files;
    ::posix_spawn_file_actions_addopen(&files.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&files.actions, to_output.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&files.actions, to_errors.get(), STDERR_FILENO);
    ::posix_spawn_file_actions_addclosefrom_np(&files.actions, STDERR_FILENO + 1);
    SpawnAttributes how;
    std::vector<std::string> words = argv;
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const int error = ::posix_spawnp(&pid, argv.front().c_str(), &files.actions, &how.attributes,
                                     pointers.data(), environ);
    if (error != 0)
      return Error{Errc::Unavailable,
                   fmt::format("{} cannot be started: {}", argv.front(), ::strerror(error))};
  }
  const TimePoint until = std::chrono::steady_clock::now() + kSlurmAnswerLimit;
  bool in_time = true;
  while (output.end.get() >= 0 || errors.end.get() >= 0) {
    const Duration left = until - std::chrono::steady_clock::now();
    in_time = left > Duration{0};
    if (!in_time) break;
    std::array<pollfd, 2> watched{pollfd{output.end.get(), POLLIN, 0},
                                  pollfd{errors.end.get(), POLLIN, 0}};
    const int wait = static_cast<int>(std::chrono::ceil<milliseconds>(left).count());
    (void)::poll(watched.data(), watched.size(), wait);
    for (Reader* reader : {&output, &errors})
      if (reader->end.get() >= 0) read_more(*reader);
  }
  if (!in_time) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!in_time)
    return Error{Errc::Timeout, fmt::format("{} did not answer within {}", argv.front(),
                                            format_duration(kSlurmAnswerLimit))};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::move(output.text);
  while (errors.text.ends_with('\n')) errors.text.pop_back();
  return Error{Errc::Io, fmt::format("{} failed: {}", argv.front(),
                                     errors.text.empty() ? "it does not say why"
                                                         : utf8_text(errors.text, kShownBytesMax))};
}

Result<std::optional<Duration>> ask_time_left(const std::string& job_id) {
  TRY(const std::string answer, run_slurm_command({"squeue", "-h", "-j", job_id, "-o", "%L"}));
  const auto left = seconds_left_in(answer);
  return left ? std::optional<Duration>(seconds(*left)) : std::optional<Duration>();
}

Result<Unit> requeue(const std::string& job_id) {
  TRY_VOID(run_slurm_command({"scontrol", "requeue", job_id}));
  return Unit{};
}

}  // namespace train
