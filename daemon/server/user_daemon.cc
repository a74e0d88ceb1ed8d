#include "daemon/server/user_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/open_files.h"
#include "lib/base/spawn.h"
#include "lib/base/utf8.h"
#include "lib/net/runtime_dir.h"
#include "lib/storage/own_folder.h"
#include "lib/storage/private_roots.h"

namespace train {
namespace {

constexpr Duration kLookEvery = milliseconds(5), kStartAgainAfter = milliseconds(100);
constexpr int kStartFailuresMax = 20;  // the one before it may be leaving
constexpr std::size_t kMessageBytesMax = 1024;

/// Connect to the socket; nothing if nobody listens there.
Result<std::optional<FileDescriptor>> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return Error{Errc::InvalidArgument, fmt::format("the path {} is too long for a socket", path),
                 "name a shorter --runtime-dir"};
  path.copy(address.sun_path, path.size());
  FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return system_error(errno, "making a socket");
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED || errno == EAGAIN)
      return std::optional<FileDescriptor>();
    return system_error(errno, "connecting to " + path);
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return system_error(errno, "asking who listens on " + path);
  if (peer.uid != ::geteuid())
    return Error{Errc::Permission, fmt::format("a process of uid {} listens on {}", peer.uid, path),
                 "have it removed, or name another folder: --runtime-dir"};
  return std::optional(std::move(fd));
}

std::string socket_in(const std::string& folder) { return folder + "/traind.sock"; }

Result<Unit> make_or_check(const std::string& folder) {
  auto made = make_own_folder(folder);
  if (made || made.error().code != Errc::AlreadyExists) return made;
  return check_own_folder(folder);
}

/// Make both folders, or check that they are ours. Return that of the spool.
Result<std::string> make_folders(const std::string& runtime) {
  TRY_VOID(make_or_check(runtime));
  Error why{Errc::NotFound, "neither /var/tmp nor /tmp is a folder that is safe to use"};
  for (const char* root : {"/var/tmp", "/tmp"}) {
    const std::string spool = fmt::format("{}/{}", root, spool_name(runtime));
    const auto made = make_or_check(spool);
    if (made && holds_sockets(spool)) return spool;
    why = made ? Error{Errc::Io, "no socket can be made in " + spool} : made.error();
  }
  return why;
}

/// A process traind that we have started.
class Starting {
 public:
  Result<Unit> start(const std::string& runtime, const std::string& spool);
  bool runs() const { return pid_ > 0; }
  /// Return whether it has ended, and reap it.
  bool ended() {
    if (pid_ <= 0 || ::waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
    pid_ = -1;
    return true;
  }

 private:
  pid_t pid_ = -1;
};

// In a session of its own, with none of our files: sshd waits for the last process that holds one.
Result<Unit> Starting::start(const std::string& runtime, const std::string& spool) {
  std::array<char, 4096> self{};
  if (::readlink("/proc/self/exe", self.data(), self.size() - 1) <= 0)
    return system_error(errno, "looking for our own program");
  const std::string listen = "unix:" + socket_in(runtime), log = runtime + "/traind.log";
  const std::array<const char*, 10> argv{
      self.data(),     "--private",     "--of-user",   "--listen",    listen.c_str(),
      "--runtime-dir", runtime.c_str(), "--spool-dir", spool.c_str(), nullptr};
  SpawnActions files;
  ::posix_spawn_file_actions_addopen(&files.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files.actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&files.actions, STDERR_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  ::posix_spawn_file_actions_addclosefrom_np(&files.actions, STDERR_FILENO + 1);
  SpawnAttributes how;
  how.set_flags(POSIX_SPAWN_SETSID);
  const InitialOpenFiles its_limit;
  const int error = ::posix_spawn(&pid_, self.data(), &files.actions, &how.attributes,
                                  const_cast<char* const*>(argv.data()), environ);
  if (error == 0) return Unit{};
  pid_ = -1;
  return system_error(error, "starting traind");
}

/// Start traind in the first folder that is ours or that we can make, and return that folder. If
/// there is none: what is wrong with each.
Result<std::string> start_in_first(const std::vector<std::string>& folders, Starting& traind) {
  Error wrong{Errc::Permission, "", ""};
  for (const std::string& folder : folders) {
    const auto spool = make_folders(folder);
    if (spool) {
      TRY_VOID(traind.start(folder, *spool));
      return folder;
    }
    if (folders.size() == 1) return spool.error();
    wrong.message += (wrong.message.empty() ? "" : "; ") + spool.error().describe();
  }
  wrong.hint = "have root remove them, or start a traind of your own there";
  return wrong;
}

/// Return the last error in its log.
Error last_error(const std::string& runtime) {
  constexpr std::streamoff kTailBytes = 4096;
  constexpr std::string_view kError = "traind: error: ", kHint = "traind: ";
  std::ifstream log(runtime + "/traind.log", std::ios::binary);
  log.seekg(0, std::ios::end);
  log.seekg(std::max<std::streamoff>(0, std::streamoff{log.tellg()} - kTailBytes));
  Error last{Errc::Unavailable, "traind does not start", "see " + runtime + "/traind.log"};
  for (std::string line; std::getline(log, line);) {
    line = utf8_text(line, kMessageBytesMax);
    if (line.starts_with(kError))
      last = {Errc::Unavailable, "traind does not start: " + line.substr(kError.size()), ""};
    else if (line.starts_with(kHint) && last.hint.empty())
      last.hint = line.substr(kHint.size());
  }
  return last;
}

}  // namespace

std::vector<std::string> user_daemon_dirs() {
  const auto uid = ::geteuid();
  std::vector<std::string> folders{fmt::format("/tmp/trainrun-{}-ssh", uid),
                                   fmt::format("/var/tmp/trainrun-{}-ssh", uid)};
  const std::string of_session = fmt::format("/run/user/{}", uid);
  if (check_own_folder(of_session)) folders.push_back(of_session + "/trainrun-ssh");
  return folders;
}

// Others may do the same at this moment, and an earlier traind may be leaving: only one can lock
// the folder, and all the others look again for who listens.
Result<FileDescriptor> connect_user_daemon(const std::string& runtime_dir, Duration limit) {
  const bool any = runtime_dir.empty();
  if (any) {  // whatever is wrong there, it is not needed
    auto standing = connect_to(socket_in(default_runtime_dir()));
    if (standing && *standing) return std::move(**standing);
  }
  const std::vector<std::string> folders =
      any ? user_daemon_dirs() : std::vector<std::string>{runtime_dir};
  const TimePoint until = std::chrono::steady_clock::now() + limit;
  Starting traind;
  Result<std::string> started = folders.front();
  TimePoint start_at{};
  for (int failures = 0; std::chrono::steady_clock::now() < until;) {
    for (const std::string& folder : folders) {
      auto found = connect_to(socket_in(folder));
      if (found && *found) return std::move(**found);
      if (!found && !any) return found.error();
    }
    if (traind.ended()) start_at = std::chrono::steady_clock::now() + kStartAgainAfter;
    if (!traind.runs() && std::chrono::steady_clock::now() >= start_at) {
      if (failures++ == kStartFailuresMax) break;
      start_at = std::chrono::steady_clock::now() + kStartAgainAfter;
      started = start_in_first(folders, traind);
    }
    std::this_thread::sleep_for(kLookEvery);
  }
  if (started.has_error()) return started.error();
  return last_error(*started);
}

}  // namespace train
