#include "daemon/supervisor/limits/oom_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/supervisor/limits/memory_account.h"
#include "lib/net/within.h"

namespace train {
namespace {

// The kernel notifies us before it kills, if it kills at all: look so often for the kill.
constexpr Duration kKillDelay = milliseconds(5);
constexpr int kLooks = 200;

/// Return a descriptor that can be read when the group has no memory left, or −1 if v1 does not
/// offer it.
int oom_event(const std::string& folder) {
  const int control = ::open((folder + "/cgroup.event_control").c_str(), O_WRONLY | O_CLOEXEC);
  if (control < 0) return -1;
  const int oom = ::open((folder + "/memory.oom_control").c_str(), O_RDONLY | O_CLOEXEC);
  int event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const std::string words = fmt::format("{} {}", event, oom);
  if (event >= 0 && ::write(control, words.data(), words.size()) < 0) {
    ::close(event);
    event = -1;
  }
  if (oom >= 0) ::close(oom);
  ::close(control);
  return event;
}

}  // namespace

asio::awaitable<void> kill_all_when_out_of_memory(asio::any_io_executor executor, Cgroup group) {
  const auto folder = group.controller("memory");
  const int event = folder ? oom_event(*folder) : -1;
  if (event < 0) co_return;
  asio::posix::stream_descriptor told(executor, event);
  const auto gone = [&] { return ::access(folder->c_str(), F_OK) != 0; };
  for (;;) {
    std::uint64_t times = 0;
    const auto [error, size] = co_await told.async_read_some(asio::buffer(&times, sizeof times),
                                                             asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    for (int look = 0; look < kLooks; ++look) {
      if (gone()) co_return;  // we are notified of the removal, too
      if (oom_kills(*folder) > 0) co_return group.kill();
      const auto paused = co_await pause_for(kKillDelay);
      if (!paused) co_return;
    }
  }
}

}  // namespace train
