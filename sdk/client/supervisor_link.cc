#include "sdk/client/supervisor_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <thread>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/thread.h"
#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"

namespace train::sdk {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWelcomeWithin = std::chrono::seconds(60);
// Between two runs, a supervisor begins anew, and does not listen for a moment.
constexpr auto kSupervisorAwayMax = std::chrono::seconds(30);
constexpr auto kConnectAgainEvery = std::chrono::milliseconds(5);
// After sending, collect more reports for this long: a loop that reports every few µs then costs
// the link's thread one wake-up per millisecond instead of one per report. Urgent frames wake it at
// once.
constexpr int kLingerMs = 1;

int poll_retrying(pollfd* fds, nfds_t count, int timeout_ms) {
  int ready = 0;
  do ready = ::poll(fds, count, timeout_ms);
  while (ready < 0 && errno == EINTR);
  return ready;
}

Result<Unit> send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return system_error(errno, "sending to the supervisor");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return Unit{};
}

/// Return the milliseconds until `deadline`, for poll(); −1: no limit.
int poll_time(Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

/// Receive bytes, as recv() does. A descriptor that comes with them replaces `descriptor`.
ssize_t receive_with_descriptor(int fd, std::span<char> buffer, FileDescriptor& descriptor) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec bytes{.iov_base = buffer.data(), .iov_len = buffer.size()};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(header), sizeof received);
    descriptor.reset(received);
  }
  return got;
}

Result<Frame> receive_one(JoinedSocket& joined, Clock::time_point deadline) {
  FrameReader& reader = joined.reader;
  const int fd = joined.fd;
  while (true) {
    TRY(auto frame, reader.next());
    if (frame) return std::move(*frame);
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    if (poll_retrying(&entry, 1, poll_time(deadline)) == 0)
      return Error{Errc::Timeout, "the supervisor did not answer within 60 s"};
    char buffer[16 << 10];
    const ssize_t got = receive_with_descriptor(fd, buffer, joined.progress);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "reading from the supervisor");
    if (got == 0)
      return Error{Errc::Unavailable,
                   "the supervisor closed the connection instead of welcoming this worker"};
    reader.feed(std::string_view(buffer, static_cast<std::size_t>(got)));
  }
}

/// Say hello, and return the answer.
Result<Frame> exchange_hello(JoinedSocket& joined, const WorkerHello& hello) {
  std::string bytes;
  append_frame(encode(hello, Attempt{hello.attempt}), bytes);
  TRY_VOID(send_all(joined.fd, bytes));
  const bool waits = hello.standby >= 0 || hello.stays;  // until it gets a rank
  const auto deadline = waits ? Clock::time_point::max() : Clock::now() + kWelcomeWithin;
  return receive_one(joined, deadline);
}

Result<Unit> take_welcome(const Frame& frame, JoinedSocket& joined) {
  if (frame.type == MessageType::Refused) {
    TRY(auto refused, decode<Refused>(frame));
    return Error{Errc::Unavailable,
                 fmt::format("the supervisor refused this worker: {}", refused.message),
                 refused.hint};
  }
  if (frame.type != MessageType::Welcome) {
    return Error{Errc::Protocol,
                 fmt::format("the supervisor answered hello with {}", to_string(frame.type))};
  }
  TRY(joined.welcome, decode<Welcome>(frame));
  if (joined.welcome.protocol < kProtocolMin || joined.welcome.protocol > kProtocolMax) {
    return Error{Errc::Protocol,
                 fmt::format("the supervisor speaks protocol {}, this program {} to {}",
                             joined.welcome.protocol, kProtocolMin, kProtocolMax),
                 "build the program with the trainrun that runs it"};
  }
  return Unit{};
}

void close_once(std::atomic<int>& fd) {
  if (const int number = fd.exchange(-1); number >= 0) ::close(number);
}

}  // namespace

Result<int> connect_supervisor(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error{Errc::InvalidArgument,
                 fmt::format("TRAINRUN_SOCKET has {} bytes, a Unix socket's path 1 to {}",
                             path.size(), sizeof address.sun_path - 1)};
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error(errno, "making a socket");
  int connected = 0;
  do connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  while (connected < 0 && errno == EINTR);
  const int error_number = errno;
  if (connected == 0) {
    // Anyone who may write to the socket's folder can put another socket there.
    ucred peer{};
    socklen_t size = sizeof peer;
    const bool asked = ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    if (asked && (peer.uid == ::geteuid() || peer.uid == 0)) return fd;
    ::close(fd);
    return Error{Errc::Permission,
                 fmt::format("another user's process (uid {}) answers at TRAINRUN_SOCKET={}",
                             asked ? std::to_string(peer.uid) : "?", path)};
  }
  ::close(fd);
  return Error{Errc::Unavailable,
               fmt::format("no supervisor answers at TRAINRUN_SOCKET={}: {}", path,
                           std::strerror(error_number)),
               "unset TRAINRUN_SOCKET to run this program by hand"};
}

Result<JoinedSocket> join_supervisor(int fd, const WorkerHello& hello) {
  JoinedSocket joined{.fd = fd, .welcome = {}, .reader = {}};
  const auto answer = exchange_hello(joined, hello);
  const auto welcomed = answer ? take_welcome(*answer, joined) : Result<Unit>(answer.error());
  if (welcomed) return joined;
  ::close(fd);
  return welcomed.error();
}

Result<std::optional<JoinedSocket>> wait_for_next_run(const std::string& path,
                                                      const WorkerHello& hello) {
  auto give_up = Clock::now() + kSupervisorAwayMax;
  while (Clock::now() < give_up) {
    const auto fd = connect_supervisor(path);
    if (!fd && fd.error().code != Errc::Unavailable) return fd.error();
    if (fd) {
      JoinedSocket joined{.fd = *fd, .welcome = {}, .reader = {}};
      const auto answer = exchange_hello(joined, hello);
      if (answer && answer->type == MessageType::Welcome) {
        if (const auto welcomed = take_welcome(*answer, joined); !welcomed) {
          ::close(*fd);
          return welcomed.error();
        }
        return std::optional(std::move(joined));
      }
      ::close(*fd);
      if (answer) return std::optional<JoinedSocket>();  // there is no place for it
      give_up = Clock::now() + kSupervisorAwayMax;       // it was there until now
    }
    std::this_thread::sleep_for(kConnectAgainEvery);
  }
  return std::optional<JoinedSocket>();
}

namespace {

// Of a link that has ended, whose threads may still write to it: the next link is woken in vain.
std::atomic<int> spare_wake_fd = -1;

int take_wake_fd() {
  const int spare = spare_wake_fd.exchange(-1);
  return spare >= 0 ? spare : ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

}  // namespace

void SupervisorLink::hand_on_wakes() {
  if (std::exchange(wakes_handed_on_, true)) return;
  if (const int unused = spare_wake_fd.exchange(wake_fd_); unused >= 0) ::close(unused);
}

SupervisorLink::SupervisorLink(int fd, FrameReader reader, Owner owner)
    : fd_(fd), wake_fd_(take_wake_fd()), reader_(std::move(reader)), owner_(std::move(owner)) {
  TRAIN_CHECK(wake_fd_ >= 0, "the limit on open files leaves no room for an eventfd");
  thread_ = start_thread("trainrun-sdk", [this] { run(); });
}

SupervisorLink::~SupervisorLink() {
  stop();
  if (!wakes_handed_on_) close_once(wake_fd_);
}

void SupervisorLink::wake() {
  const std::uint64_t one = 1;
  // EAGAIN: the counter is full, so the thread is awake anyway
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_, &one, sizeof one);
}

void SupervisorLink::stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  wake();
  thread_.join();
  // The eventfd stays open: a thread that reports at this moment may be about to write to it.
  close_once(fd_);
}

void SupervisorLink::abandon_in_fork_child() {
  close_once(fd_);
  close_once(wake_fd_);
}

void SupervisorLink::run() {
  bool lingering = false;
  Result<Unit> fine = take_frames();
  while (fine.has_value() && !stopping_) {
    if (sent_ == out_.size() && !lingering) {
      out_.clear();
      sent_ = 0;
      owner_.fill(out_);
    }
    if (sent_ < out_.size()) {
      fine = send_some();
      if (fine.has_error()) break;
      lingering = sent_ == out_.size();
    }
    pollfd entries[2] = {{.fd = fd_, .events = POLLIN, .revents = 0},
                         {.fd = wake_fd_, .events = POLLIN, .revents = 0}};
    if (sent_ < out_.size()) entries[0].events = POLLIN | POLLOUT;
    if (poll_retrying(entries, 2, lingering ? kLingerMs : -1) == 0) lingering = false;
    if (entries[1].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_fd_, &count, sizeof count);
      lingering = false;
    }
    if ((entries[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) fine = receive();
  }
  if (fine.has_error()) owner_.on_closed(fine.error());
}

Result<Unit> SupervisorLink::send_some() {
  const ssize_t sent =
      ::send(fd_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) {
    sent_ += static_cast<std::size_t>(sent);
  } else if (errno != EAGAIN && errno != EINTR) {
    if (errno == EPIPE || errno == ECONNRESET)
      return Error{Errc::Unavailable, "the supervisor closed the connection"};
    return system_error(errno, "sending to the supervisor");
  }
  return Unit{};
}

Result<Unit> SupervisorLink::receive() {
  char buffer[64 << 10];
  const ssize_t got = ::recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Unit{};
  if (got == 0 || (got < 0 && errno == ECONNRESET))
    return Error{Errc::Unavailable, "the supervisor closed the connection"};
  if (got < 0) return system_error(errno, "reading from the supervisor");
  reader_.feed(std::string_view(buffer, static_cast<std::size_t>(got)));
  return take_frames();
}

Result<Unit> SupervisorLink::take_frames() {
  while (true) {
    TRY(auto frame, reader_.next());
    if (!frame) return Unit{};
    TRY_VOID(owner_.on_frame(*frame));
  }
}

}  // namespace train::sdk
