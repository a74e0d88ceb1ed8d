#include "launcher/cluster/links/private_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lib/base/open_files.h"
#include "lib/base/text_file.h"
#include "lib/base/time.h"
#include "lib/net/hmac.h"
#include "lib/storage/own_folder.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/private_roots.h"

namespace train {
namespace {

/// Return the socket's address, or nothing if the path is too long for one.
std::optional<sockaddr_un> socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return std::nullopt;
  path.copy(address.sun_path, path.size());
  return address;
}

// How often, and for how long in all, to look again for folders that vanish.
constexpr int kFolderLooksMax = 20;
constexpr Duration kFolderLookEvery = milliseconds(50);

constexpr std::string_view kSpoolNote = "/spool-dir";  // in the runtime folder: where it is

/// Return whether the process has ended, even if nobody has reaped it yet.
bool is_gone(pid_t pid) {
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (fd < 0) return errno == ESRCH;
  pollfd ended{fd, POLLIN, 0};
  const bool gone = ::poll(&ended, 1, 0) > 0;
  ::close(fd);
  return gone;
}

}  // namespace

PrivateDaemon::PrivateDaemon() {
  // Nobody else can have made a folder of that name.
  runtime_dir_ = runtime_root() + "/" + runtime_name(random_bytes(5));
}

std::optional<PrivateDaemon> PrivateDaemon::find(const std::string& note) {
  std::ifstream file(note);
  std::string runtime_dir;
  if (!std::getline(file, runtime_dir) || runtime_dir.empty()) return std::nullopt;
  return at(runtime_dir);
}

void PrivateDaemon::clean_up_lost(const std::string& note) {
  std::ifstream file(note);
  std::string runtime_dir, spool_dir;
  if (!std::getline(file, runtime_dir) || !std::getline(file, spool_dir)) return;
  const auto runtime = check_own_folder(runtime_dir);
  const bool lost = !runtime && runtime.error().code == Errc::NotFound;
  if (lost && join_path(parent_path(spool_dir), spool_name(runtime_dir)) == spool_dir &&
      is_safe_root(parent_path(spool_dir)))
    (void)remove_own_folder(spool_dir);
}

std::optional<PrivateDaemon> PrivateDaemon::at(const std::string& runtime_dir) {
  if (!is_safe_root(parent_path(runtime_dir)) || !check_own_folder(runtime_dir))
    return std::nullopt;
  PrivateDaemon daemon;
  daemon.runtime_dir_ = runtime_dir;
  daemon.spool_dir_ = read_text(runtime_dir + std::string(kSpoolNote));
  daemon.made_ = true;
  const auto address = socket_address(daemon.endpoint().host_or_path);
  if (!address) return std::nullopt;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool answers =
      fd >= 0 &&
      ::connect(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof *address) == 0 &&
      ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
  if (fd >= 0) ::close(fd);
  if (!answers) return daemon;  // it has died: a new one finds the supervisors through their folder
  daemon.pid_ = peer.pid;
  daemon.found_ = true;
  return daemon;
}

void PrivateDaemon::remember(const std::string& note) const {
  std::ofstream(note) << runtime_dir_ << "\n" << spool_dir_ << "\n";
}

Result<std::string> find_traind() {
  if (const char* named = std::getenv("TRAINRUN_TRAIND")) return std::string(named);
  char self[PATH_MAX] = {};
  if (::readlink("/proc/self/exe", self, sizeof self - 1) > 0) {
    const std::string path(self);
    const std::string beside = path.substr(0, path.rfind('/')) + "/traind";
    if (::access(beside.c_str(), X_OK) == 0) return beside;
  }
  for (const char* path :
       {"/usr/sbin/traind", "/usr/local/sbin/traind", "/usr/local/bin/traind", "/usr/bin/traind"}) {
    if (::access(path, X_OK) == 0) return std::string(path);
  }
  return Error{Errc::NotFound, "traind was found neither next to train-run nor in /usr/sbin",
               "install it, or set TRAINRUN_TRAIND to its path"};
}

Result<Unit> PrivateDaemon::start() {
  auto started = spawn();
  if (started) {
    not_started_.reset();
  } else {
    not_started_ = started.error();
    ++failures_;
  }
  return started;
}

/// Make the runtime folder and the spool folder, unless they are there. NotFound if the spool is
/// gone, and supervisors may still use it.
Result<Unit> PrivateDaemon::make_folders() {
  auto folder = made_ ? check_own_folder(runtime_dir_) : make_own_folder(runtime_dir_);
  // The previous traind removed the folder when it ended.
  if (!folder && made_ && folder.error().code == Errc::NotFound)
    folder = make_own_folder(runtime_dir_);
  TRY_VOID(folder);
  made_ = true;
  return make_spool();
}

Result<Unit> PrivateDaemon::spawn() {
  TRY(const std::string program, find_traind());
  auto folders = make_folders();
  // The run's previous traind may be removing them at this moment: the spool is gone already, or
  // the runtime folder has lost its mark (Permission).
  for (int looks = 0; looks < kFolderLooksMax && !folders; ++looks) {
    if (folders.error().code != Errc::NotFound && folders.error().code != Errc::Permission) break;
    std::this_thread::sleep_for(kFolderLookEvery);
    folders = make_folders();
  }
  TRY_VOID(folders);
  const std::string listen = endpoint().text();
  const char* const argv[] = {
      program.c_str(), "--private",        "--listen",
      listen.c_str(),  "--runtime-dir",    runtime_dir_.c_str(),
      "--spool-dir",   spool_dir_.c_str(), stays_ ? "--leave-with-stdin" : nullptr,
      nullptr};
  const std::string log = runtime_dir_ + "/traind.log";
  const InitialOpenFiles its_limit;  // traind passes it on to the workers
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  FileDescriptor held, hold;
  if (stays_) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "making a pipe for traind");
    held.reset(ends[0]);
    hold.reset(ends[1]);
    ::posix_spawn_file_actions_adddup2(&actions, held.get(), STDIN_FILENO);
  } else {
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  }
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;  // a sweep blocks signals
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  int error = ::posix_spawn(&pid_, program.c_str(), &actions, &attributes,
                            const_cast<char* const*>(argv), environ);
  // The previous traind may have removed the folder since.
  if (error == ENOENT && make_own_folder(runtime_dir_) && make_spool())
    error = ::posix_spawn(&pid_, program.c_str(), &actions, &attributes,
                          const_cast<char* const*>(argv), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) return system_error(error, "starting " + program);
  if (stays_) hold_ = std::make_shared<FileDescriptor>(std::move(hold));
  found_ = false;
  return Unit{};
}

/// Make the spool folder, after the note that names it. If the folder that the note names is gone,
/// because a batch system has removed the TMPDIR of its job, make another one, unless supervisors
/// may still use the first.
Result<Unit> PrivateDaemon::make_spool() {
  const std::string note = runtime_dir_ + std::string(kSpoolNote);
  if (!spool_dir_.empty()) {
    const auto kept = check_own_folder(spool_dir_);
    if (kept && read_text(note) == spool_dir_) return Unit{};
    if (!kept && has_supervisors())
      return Error{kept.error()}.with_context("the folder for output of this run");
  }
  Error why{Errc::NotFound, "neither $TMPDIR nor /var/tmp is a folder that is safe to use",
            "set TMPDIR to a folder of yours that others cannot write to"};
  for (const std::string& root : spool_roots()) {
    spool_dir_ = root + "/" + spool_name(runtime_dir_);
    TRY_VOID(replace_private_file(note, spool_dir_));
    const auto made = make_own_folder(spool_dir_);
    if (made && holds_sockets(spool_dir_)) return Unit{};
    if (made) (void)remove_own_folder(spool_dir_);
    why = made ? Error{Errc::Io, "no socket can be made in " + spool_dir_} : made.error();
  }
  return why;
}

bool PrivateDaemon::ended() {
  if (pid_ <= 0) return true;
  if (found_) return is_gone(pid_);
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == 0) return false;
  pid_ = -1;
  const bool failed = WIFEXITED(status) && WEXITSTATUS(status) != 0;
  failures_ = failed ? failures_ + 1 : 0;  // one that was killed had started
  return true;
}

Error PrivateDaemon::last_error() const {
  if (not_started_) return *not_started_;
  constexpr std::streamoff kTailBytes = 4096;
  std::ifstream log(runtime_dir_ + "/traind.log", std::ios::binary);
  log.seekg(0, std::ios::end);
  log.seekg(std::max<std::streamoff>(0, std::streamoff{log.tellg()} - kTailBytes));
  constexpr std::string_view kError = "traind: error: ", kHint = "traind: ";
  Error last{Errc::Unavailable, "", ""};
  for (std::string line; std::getline(log, line);) {
    if (line.starts_with(kError))
      last = {Errc::Unavailable, line.substr(kError.size()), ""};
    else if (line.starts_with(kHint) && last.hint.empty())
      last.hint = line.substr(kHint.size());
  }
  return last;
}

void PrivateDaemon::stop() {
  if (pid_ <= 0 || found_) return;
  ::kill(pid_, SIGKILL);  // it may not have its signal handlers yet
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  if (!has_supervisors()) clean_up();  // otherwise the next launcher finds them there
}

bool PrivateDaemon::has_supervisors() const {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(runtime_dir_, ignored)) {
    if (entry.path().filename().string().starts_with("s-")) return true;
  }
  return false;
}

void PrivateDaemon::clean_up() {
  (void)remove_own_folder(spool_dir_);
  (void)remove_own_folder(runtime_dir_);
}

}  // namespace train
