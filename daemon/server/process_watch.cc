#include "daemon/server/process_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <sstream>

#include "lib/base/text_file.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kLookAgainAfter = seconds(1);
constexpr std::uint64_t kExiting = 4;  // PF_EXITING of the kernel

/// From /proc/PID/stat (proc(5)). `start` is empty if the process is gone, or a zombie.
struct Stat {
  std::uint64_t flags = 0;
  std::string start = {};
};

Stat read_stat(pid_t pid) {
  const std::string text = read_text(fmt::format("/proc/{}/stat", pid));
  const auto name_end = text.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos) return {};
  std::istringstream words(text.substr(name_end + 1));
  Stat stat;
  std::string state, word;
  words >> state;
  for (int field = 4; field < 9; ++field) words >> word;
  words >> stat.flags;
  for (int field = 10; field <= 22; ++field) words >> word;
  if (state != "Z" && state != "X") stat.start = word;
  return stat;
}

}  // namespace

std::string process_start(pid_t pid) { return read_stat(pid).start; }

bool goes_on(pid_t pid) {
  const Stat stat = read_stat(pid);
  return !stat.start.empty() && (stat.flags & kExiting) == 0;
}

Task<Unit> wait_until_gone(asio::any_io_executor executor, pid_t pid, std::string start) {
  int fd = -1;
  while ((fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) < 0) {
    // Any other error, such as a lack of descriptors, says nothing about the process, and /proc
    // could not be read either.
    if (errno == ESRCH) co_return Unit{};
    CO_TRY_VOID(co_await pause_for(kLookAgainAfter));
  }
  asio::posix::stream_descriptor watcher(executor, fd);
  // If `found` is empty, the start time could not be read just now: look again.
  for (std::string found; !start.empty() && (found = process_start(pid)) != start;) {
    pollfd ended{fd, POLLIN, 0};
    if (!found.empty() || ::poll(&ended, 1, 0) > 0) co_return Unit{};  // another has that pid
    CO_TRY_VOID(co_await pause_for(kLookAgainAfter));
  }
  const auto [error] = co_await watcher.async_wait(asio::posix::stream_descriptor::wait_read,
                                                   asio::as_tuple(asio::use_awaitable));
  if (error) co_return Error{Errc::Cancelled, "waiting for a process was cancelled"};
  co_return Unit{};
}

}  // namespace train
