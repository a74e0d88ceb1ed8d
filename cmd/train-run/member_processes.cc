#include "cmd/train-run/member_processes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "lib/base/open_files.h"
#include "lib/base/spawn.h"
#include "lib/net/hmac.h"
#include "lib/storage/own_folder.h"

namespace train {
namespace {

constexpr int kRestartsMax = 5;
constexpr std::size_t kSaidBytesMax = 4096;

}  // namespace

// ---- MemberProcess

// In a group of its own: a Ctrl-C in the terminal is for us, who pass it on.
Result<MemberProcess> MemberProcess::start(How how) {
  SpawnActions files;
  if (how.input >= 0) ::posix_spawn_file_actions_adddup2(&files.actions, how.input, STDIN_FILENO);
  if (how.output >= 0)
    ::posix_spawn_file_actions_adddup2(&files.actions, how.output, STDOUT_FILENO);
  SpawnAttributes attributes;
  attributes.set_flags(how.own_session ? POSIX_SPAWN_SETSID : POSIX_SPAWN_SETPGROUP);
  const InitialOpenFiles its_limit;
  MemberProcess process;
  const int error = ::posix_spawn(&process.pid_, how.words.front().c_str(), &files.actions,
                                  &attributes.attributes, pointers_to(how.words).data(),
                                  pointers_to(how.variables).data());
  if (error != 0) return system_error(error, "starting " + how.words.front());
  process.process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, process.pid_, 0)));
  return process;
}

void MemberProcess::send_signal(int number) const {
  if (pid_ > 0 && !end_) ::kill(pid_, number);
}

const std::optional<MemberProcess::End>& MemberProcess::ended() {
  int status = 0;
  if (end_ || pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return end_;
  end_ = WIFSIGNALED(status) ? End{128 + WTERMSIG(status), WTERMSIG(status)}
                             : End{WEXITSTATUS(status), 0};
  return end_;
}

// ---- MemberTraind

Result<MemberTraind> MemberTraind::start(std::vector<std::string> words,
                                         std::vector<std::string> variables) {
  MemberTraind traind;
  TRY(traind.folders_, make_private_folders(random_bytes(5)));
  traind.words_ = std::move(words);
  traind.words_.insert(traind.words_.begin() + 1, {"--runtime-dir", traind.folders_.runtime,
                                                   "--spool-dir", traind.folders_.spool});
  traind.variables_ = std::move(variables);
  if (const auto spawned = traind.spawn(); !spawned) {
    traind.clean_up();
    return spawned.error();
  }
  return traind;
}

Result<Unit> MemberTraind::spawn() {
  std::array<int, 2> leash{}, output{};
  if (::pipe2(leash.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  const FileDescriptor its_leash(leash[0]);
  leash_.reset(leash[1]);
  if (::pipe2(output.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  const FileDescriptor its_output(output[1]);
  output_.reset(output[0]);
  ::fcntl(output_.get(), F_SETFL, O_NONBLOCK);
  said_.clear();
  TRY(process_, MemberProcess::start({.words = words_,
                                      .variables = variables_,
                                      .input = its_leash.get(),
                                      .output = its_output.get(),
                                      .own_session = true}));
  return Unit{};
}

bool MemberTraind::is_ready() {
  std::array<char, 512> piece{};
  while (!ready_ && output_.get() >= 0) {
    const ssize_t size = ::read(output_.get(), piece.data(), piece.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) break;
    if (size <= 0 || said_.size() > kSaidBytesMax) {
      output_.reset();
      break;
    }
    said_.append(piece.data(), static_cast<std::size_t>(size));
    ready_ = said_.find('\n') != std::string::npos;
  }
  return ready_;
}

Result<Unit> MemberTraind::start_again() {
  if (++restarts_ > kRestartsMax)
    return Error{Errc::Unavailable, fmt::format("its traind was killed {} times", restarts_)};
  return spawn();
}

void MemberTraind::clean_up() {
  (void)remove_own_folder(folders_.spool);
  (void)remove_own_folder(folders_.runtime);
}

}  // namespace train
