#include "launcher/bundle/new_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::array kEndingSignals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

std::array<char, PATH_MAX> g_draft{};  // for the handler; empty: there is none

extern "C" void remove_draft_and_end(int signal) {
  if (g_draft[0] != '\0') ::unlink(g_draft.data());
  ::raise(signal);  // as if there were no handler: SA_RESETHAND
}

void handle_ending_signals() {
  for (const int signal : kEndingSignals) {
    struct sigaction now {};
    if (::sigaction(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
    struct sigaction ours {};
    ours.sa_handler = remove_draft_and_end;
    ours.sa_flags = static_cast<int>(SA_RESETHAND);
    ::sigaction(signal, &ours, nullptr);
  }
}

/// Call something that no ending signal may come between.
template <class Call>
void undisturbed(const Call& call) {
  sigset_t ending, before;
  ::sigemptyset(&ending);
  for (const int signal : kEndingSignals) ::sigaddset(&ending, signal);
  ::pthread_sigmask(SIG_BLOCK, &ending, &before);
  call();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

int NewFile::open_nameless(const char* folder) {
  return ::open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
}

Result<NewFile> NewFile::create(const std::string& path, OpenNameless open) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  FileDescriptor file(open(folder.empty() ? "." : folder.c_str()));
  if (file.get() >= 0) return NewFile(path, "", std::move(file));
  // EISDIR, EINVAL: this file system, or the kernel, does not know the flag.
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
    return system_error(errno, "creating " + path);
  return create_draft(path);
}

Result<NewFile> NewFile::create_draft(const std::string& path) {
  const std::string draft = fmt::format("{}.{}.tmp", path, ::getpid());
  if (draft.size() >= g_draft.size()) return system_error(ENAMETOOLONG, "creating " + draft);
  handle_ending_signals();
  FileDescriptor file;
  int error = 0;
  undisturbed([&] {
    file.reset(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    error = errno;
    if (file.get() >= 0) draft.copy(g_draft.data(), draft.size());
  });
  if (file.get() < 0) return system_error(error, "creating " + draft);
  return NewFile(path, draft, std::move(file));
}

NewFile::~NewFile() {
  if (draft_.empty()) return;
  undisturbed([this] {
    ::unlink(draft_.c_str());
    g_draft.fill('\0');
  });
}

Result<Unit> NewFile::publish() {
  if (::fsync(file_.get()) != 0) return system_error(errno, "writing " + path_);
  if (draft_.empty()) {
    const std::string file = fmt::format("/proc/self/fd/{}", file_.get());
    if (::linkat(AT_FDCWD, file.c_str(), AT_FDCWD, path_.c_str(), AT_SYMLINK_FOLLOW) != 0)
      return system_error(errno, "creating " + path_);
    return Unit{};
  }
  PosixFileSystem files;
  Result<Unit> renamed = Unit{};
  undisturbed([&] {
    renamed = files.rename_new(draft_, path_);
    if (renamed) g_draft.fill('\0');
  });
  if (renamed) draft_.clear();
  return renamed;
}

}  // namespace train
