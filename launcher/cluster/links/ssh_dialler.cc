#include "launcher/cluster/links/ssh_dialler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "launcher/core/ssh_failure.h"
#include "lib/base/open_files.h"
#include "lib/base/spawn.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kFirstLoginLimit = seconds(30), kLoginLimit = seconds(5);
constexpr Duration kPauseMin = milliseconds(500), kPauseMax = seconds(30);
constexpr Duration kEndLimit = seconds(2), kEndLookEvery = milliseconds(10);
constexpr int kKillMs = 100;
constexpr std::size_t kSaidBytesMax = 16u << 10;
constexpr std::size_t kBeforeGreetingMax = 64u << 10;  // what the start files of a shell print
constexpr std::size_t kGreetingBytesMax = 256;
constexpr std::string_view kGreeting = "traind-dial 1 ";

using Socket = asio::local::stream_protocol::socket;

/// Read up to the line by which dial-stdio says that all after it comes from traind, and nothing
/// after it. Return the node's address in it. Unavailable: the other side has closed. Protocol: it
/// is something else.
Task<std::string> read_greeting(Socket& socket) {
  std::string line;
  for (std::size_t total = 0; total <= kBeforeGreetingMax;) {
    const auto [waited] =
        co_await socket.async_wait(Socket::wait_read, asio::as_tuple(asio::use_awaitable));
    if (waited) co_return detail::cancelled_error();
    std::array<char, 512> piece{};
    const int fd = socket.native_handle();
    const ssize_t seen = ::recv(fd, piece.data(), piece.size(), MSG_PEEK | MSG_DONTWAIT);
    if (seen < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (seen <= 0) co_return Error{Errc::Unavailable, "it has ended"};
    const void* end = std::memchr(piece.data(), '\n', static_cast<std::size_t>(seen));
    const std::size_t size =
        end == nullptr ? static_cast<std::size_t>(seen)
                       : static_cast<std::size_t>(static_cast<const char*>(end) - piece.data()) + 1;
    if (::recv(fd, piece.data(), size, MSG_DONTWAIT) != static_cast<ssize_t>(size))
      co_return Error{Errc::Unavailable, "it has ended"};
    total += size;
    if (line.size() <= kGreetingBytesMax) line.append(piece.data(), size);
    if (end == nullptr) continue;
    if (line.size() <= kGreetingBytesMax && line.starts_with(kGreeting))
      co_return line.substr(kGreeting.size(), line.size() - kGreeting.size() - 1);
    line.clear();
  }
  co_return Error{Errc::Protocol, "what answers is no traind"};
}

/// Return the address that dial-stdio has named, if it can be one.
std::string numeric(const std::string& address) {
  const bool fits = address.find_first_not_of("0123456789abcdefABCDEF.:%") == std::string::npos;
  return fits ? address : "";
}

}  // namespace

// ---- SshLogins

Task<Unit> SshLogins::begin(asio::any_io_executor executor, bool again) {
  if (!freed_) freed_ = std::make_unique<Notifier>(executor);
  int& busy = again ? busy_again_ : busy_;
  while (busy >= (again ? kAgainAtOnce : kAtOnce)) {
    CO_TRY([[maybe_unused]] const bool woken, co_await freed_->wait_until(TimePoint::max()));
  }
  ++busy;
  co_return Unit{};
}

void SshLogins::end(bool again) {
  --(again ? busy_again_ : busy_);
  freed_->notify();
}

// ---- SshProcess

// In a session of its own: Ctrl-C in the terminal is for us, and ssh is to ask nobody there.
Result<SshProcess> SshProcess::start(const SshHost& host, const SshConfig& config) {
  std::array<int, 2> pair{}, pipe{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return system_error(errno, "making a socket pair for ssh");
  SshProcess process;
  process.socket.reset(pair[0]);
  const FileDescriptor its_end(pair[1]);
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe for ssh");
  process.errors_.reset(pipe[0]);
  const FileDescriptor its_errors(pipe[1]);
  ::fcntl(process.errors_.get(), F_SETFL, O_NONBLOCK);
  std::vector<std::string> argv = ssh_arguments(host, config);
  argv.insert(argv.begin(), "ssh");
  SpawnActions files;
  ::posix_spawn_file_actions_adddup2(&files.actions, its_end.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, its_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, its_errors.get(), STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&files.actions, STDERR_FILENO + 1);
  SpawnAttributes how;
  how.set_flags(POSIX_SPAWN_SETSID);
  const InitialOpenFiles its_limit;
  const int error = ::posix_spawnp(&process.pid_, "ssh", &files.actions, &how.attributes,
                                   pointers_to(argv).data(), environ);
  if (error == 0) return process;
  process.pid_ = -1;
  if (error != ENOENT && error != EACCES) return system_error(error, "starting ssh");
  return Error{Errc::NotFound, fmt::format("ssh cannot be started: {}", ::strerror(error)),
               "install ssh (Debian: openssh-client), and put it into PATH"};
}

SshProcess::SshProcess(SshProcess&& other) noexcept
    : socket(std::move(other.socket)),
      pid_(std::exchange(other.pid_, -1)),
      code_(other.code_),
      errors_(std::move(other.errors_)),
      said_(std::move(other.said_)) {}

SshProcess& SshProcess::operator=(SshProcess&& other) noexcept {
  if (this == &other) return *this;
  kill();
  socket = std::move(other.socket);
  pid_ = std::exchange(other.pid_, -1);
  code_ = other.code_;
  errors_ = std::move(other.errors_);
  said_ = std::move(other.said_);
  return *this;
}

const std::string& SshProcess::said() {
  std::array<char, 4096> piece{};
  while (errors_.get() >= 0 && said_.size() < kSaidBytesMax) {
    const ssize_t size = ::read(errors_.get(), piece.data(), piece.size());
    if (size <= 0) break;
    said_.append(piece.data(), static_cast<std::size_t>(size));
  }
  return said_;
}

std::optional<int> SshProcess::ended() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return code_;
  pid_ = -1;
  if (WIFEXITED(status)) code_ = WEXITSTATUS(status);
  return code_;
}

void SshProcess::kill() {
  if (pid_ <= 0) return;
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  ::kill(-pid_, SIGKILL);  // its session, with its proxies
  ::kill(pid_, SIGKILL);
  pollfd ended{process.get(), POLLIN, 0};  // it may hang in a file system that does not answer
  (void)::poll(&ended, 1, kKillMs);
  ::waitpid(pid_, nullptr, WNOHANG);
  pid_ = -1;
}

// ---- SshDialler

SshDialler::SshDialler(SshHost host, std::string text, SshConfig config,
                       std::shared_ptr<SshLogins> logins)
    : host_(std::move(host)),
      text_(std::move(text)),
      config_(std::move(config)),
      logins_(std::move(logins)) {}

Task<Dialled> SshDialler::dial(asio::any_io_executor executor, Duration limit) {
  for (;;) {
    const bool known = ever_;
    CO_TRY_VOID(co_await logins_->begin(executor, known));
    const bool patient = !ever_ && logins_->tries > 1;
    auto login = log_in(executor, patient ? kFirstLoginLimit : std::max(limit, kLoginLimit));
    auto dialled = co_await std::move(login);
    logins_->end(known);
    if (dialled) {
      ever_ = true;
      failures_ = 0;
      co_return dialled;
    }
    failures_ = std::min(failures_ + 1, 16);
    const bool again = !ever_ && !failed_for_good_ && failures_ < logins_->tries;
    if (!again || dialled.error().code == Errc::Cancelled) co_return dialled;
    CO_TRY_VOID(co_await pause_for(pause()));
  }
}

void SshDialler::give_up() {
  if (login_ != nullptr) login_->kill();
}

Task<Dialled> SshDialler::log_in(asio::any_io_executor executor, Duration limit) {
  failed_for_good_ = false;
  ssh_.reset();
  auto started = SshProcess::start(host_, config_);
  if (!started) {
    Error error = started.error();
    failed_for_good_ = error.code == Errc::NotFound;
    error.code = Errc::Unavailable;
    co_return error;
  }
  SshProcess ssh = std::move(*started);
  Socket socket(executor);
  boost::system::error_code error;
  socket.assign(asio::local::stream_protocol(), ssh.socket.get(), error);
  if (error) co_return system_error(error.value(), "taking over a socket");
  (void)ssh.socket.release();
  login_ = &ssh;
  auto greeting = co_await within(limit, read_greeting(socket));
  login_ = nullptr;
  if (!greeting) {
    auto failed = failure(ssh, greeting.error());
    Error why = co_await std::move(failed);
    co_return why;
  }
  const int fd = socket.release(error);
  if (error) co_return system_error(error.value(), "taking over a socket");
  Dialled dialled;
  CO_TRY(dialled.connection, Connection::adopt(executor, fd));
  dialled.reached_at = numeric(*greeting);
  ssh_.emplace(std::move(ssh));
  co_return dialled;
}

/// Return what to tell the user. What ssh says is complete once it has ended.
asio::awaitable<Error> SshDialler::failure(SshProcess& ssh, Error why) {
  if (why.code == Errc::Cancelled) co_return why;
  const bool timed_out = why.code == Errc::Timeout, other = why.code == Errc::Protocol;
  std::optional<int> code = ssh.ended();
  for (Duration waited{}; !code && !timed_out && !other && waited < kEndLimit;
       waited += kEndLookEvery) {
    const auto woken = co_await pause_for(kEndLookEvery);
    if (!woken) co_return woken.error();
    code = ssh.ended();
  }
  const std::string host = text_.substr(kSshPrefix.size());
  const SshFailure failure = explain_ssh({.host = host,
                                          .arguments = ssh_arguments_by_hand(host_, config_),
                                          .program = config_.traind.value_or("traind"),
                                          .code = code,
                                          .said = ssh.said(),
                                          .timed_out = timed_out,
                                          .other_program = other});
  failed_for_good_ = failure.final;
  Error error = failure.error;
  // The silence of a host that has answered before counts towards its death.
  if (ever_ && failure.silent) error.code = Errc::Timeout;
  co_return error;
}

Duration SshDialler::pause() const {
  if (failures_ == 0) return {};
  return std::min<Duration>(kPauseMax, kPauseMin * (1 << std::min(failures_ - 1, 6)));
}

Error SshDialler::explain(Error error) const {
  if (!ssh_ || error.code == Errc::Cancelled || error.code == Errc::Timeout) return error;
  const std::string last = last_line_of(ssh_->said());
  error.message = last.empty() ? "ssh ended" : "ssh: " + last;
  return error;
}

}  // namespace train
