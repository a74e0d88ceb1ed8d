#include "tests/unit/daemon_supervisor/supervisor_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "daemon/supervisor/supervisor.h"
#include "lib/net/listener.h"

namespace train {
namespace {

constexpr int kTimeoutMs = 60000;  // far more than any step takes

}  // namespace

SupervisorProcess::SupervisorProcess(Attempt attempt) : attempt_(attempt) {
  char name[] = "/tmp/sup-XXXXXX";
  dir_ = ::mkdtemp(name);
  int pair[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  ::fcntl(pair[0], F_SETFD, FD_CLOEXEC);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(pair[0]);
    SupervisorOptions options;
    options.run_id = "r1";
    options.attempt = attempt_;
    options.link_fd = pair[1];
    boost::asio::io_context unused;
    options.socket_fd = bind_unix_socket(unused.get_executor(), dir_ + "/s.sock").value().release();
    options.spool_dir = dir_ + "/spool";
    options.data_dir = dir_ + "/data";
    options.build = "test";
    ::_exit(run_supervisor(options));
  }
  ::close(pair[1]);
  link_ = pair[0];
}

SupervisorProcess::~SupervisorProcess() {
  ::close(link_);
  if (pid_ > 1) {
    ::kill(pid_, SIGKILL);  // the kernel then kills its workers
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(dir_, ignored);
}

void SupervisorProcess::signal(int number) const { ::kill(pid_, number); }

void SupervisorProcess::reconnect() {
  ::close(link_);
  reader_ = FrameReader();
  link_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = dir_ + "/s.sock";
  std::memcpy(address.sun_path, path.c_str(), path.size());
  ASSERT_EQ(::connect(link_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
}

void SupervisorProcess::attach(std::uint64_t generation) {
  send(LauncherState{.present = true, .generation = generation, .orphan_timeout_ms = 600000});
}

void SupervisorProcess::prepare(int workers, bool standby, const std::string& storage_marker) {
  PrepareAttempt message = order_;
  message.standby = standby;
  message.local_world_size = workers;
  message.run_dir = dir_ + "/run";
  if (!storage_marker.empty()) message.storage_marker = storage_marker;
  send(message);
}

StartWorkers SupervisorProcess::program() const {
  StartWorkers start;
  start.run.run_id = start.run.run_name = "r1";
  start.working_dir = dir_;
  start.env = environment_;
  start.env.emplace("PATH", "/usr/bin:/bin");
  return start;
}

void SupervisorProcess::stand_by(int count, const std::string& script) {
  prepare(count, /*standby=*/true);
  StartWorkers start = program();
  start.standby = count;
  start.command = {"sh", "-c", script};
  send(start);
}

WorkersStarted SupervisorProcess::start(const std::vector<std::string>& scripts) {
  prepare(static_cast<int>(scripts.size()));
  StartWorkers start = program();
  const auto size = static_cast<std::int32_t>(scripts.size());
  std::string choose = "case $RANK in";
  for (std::size_t rank = 0; rank < scripts.size(); ++rank) {
    const auto number = static_cast<std::int32_t>(rank);
    start.workers.push_back(
        {.world_size = size, .rank = number, .local_rank = number, .local_world_size = size});
    choose += " " + std::to_string(rank) + ") " + scripts[rank] + " ;;";
  }
  start.command = {"sh", "-c", choose + " esac"};
  send(start);
  return wait_for<WorkersStarted>();
}

WorkersStarted SupervisorProcess::start_other_role(const std::string& script) {
  order_.other_roles = {{1, {.cpu = 0, .custom = {}}}};
  prepare(0);
  StartWorkers start = program();
  start.workers = {{.role = 1, .role_world_size = 1, .role_local_world_size = 1}};
  start.command = {"false"};
  start.other_roles = {{"reader", {"sh", "-c", script}, {{"KIND", "fast"}}}};
  send(start);
  return wait_for<WorkersStarted>();
}

Frame SupervisorProcess::next() {
  for (;;) {
    auto frame = reader_.next();
    if (!frame) throw std::runtime_error(frame.error().describe());
    if (*frame) return std::move(**frame);
    pollfd ready{.fd = link_, .events = POLLIN, .revents = 0};
    if (::poll(&ready, 1, kTimeoutMs) != 1)
      throw std::runtime_error("the supervisor sends nothing");
    char buffer[65536];
    const ssize_t size = ::read(link_, buffer, sizeof(buffer));
    if (size <= 0) throw std::runtime_error("the supervisor has closed the link");
    reader_.feed({buffer, static_cast<std::size_t>(size)});
  }
}

std::vector<Frame> SupervisorProcess::until(MessageType type) {
  std::vector<Frame> frames;
  do {
    frames.push_back(next());
  } while (frames.back().type != type);
  return frames;
}

std::optional<int> SupervisorProcess::wait_for_end() {
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  pollfd ready{.fd = pidfd, .events = POLLIN, .revents = 0};
  const bool ended = ::poll(&ready, 1, kTimeoutMs) == 1;
  ::close(pidfd);
  if (!ended) return std::nullopt;
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void SupervisorProcess::send_frames(std::initializer_list<Frame> frames) {
  std::string bytes;
  for (const Frame& frame : frames) append_frame(frame, bytes);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t size = ::send(link_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (size <= 0) throw std::runtime_error("the supervisor takes nothing");
    sent += static_cast<std::size_t>(size);
  }
}

bool ends(pid_t pid) {
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) return errno == ESRCH;
  pollfd ready{.fd = pidfd, .events = POLLIN, .revents = 0};
  const bool ended = ::poll(&ready, 1, kTimeoutMs) == 1;
  ::close(pidfd);
  return ended;
}

Prepared SupervisorWithData::prepare(const std::function<void(PrepareAttempt&)>& add) {
  supervisor_.attach(5);
  PrepareAttempt prepare{.local_world_size = 1, .generation = 5};
  prepare.run_dir = supervisor_.dir() + "/nowhere";
  prepare.storage_marker = "mark";
  add(prepare);
  supervisor_.send(prepare);
  return supervisor_.wait_for<Prepared>();
}

void SupervisorWithData::write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace train
