#include "lib/base/notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "lib/base/file_descriptor.h"

namespace train {
namespace {

std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string taken = value == nullptr ? "" : value;
  ::unsetenv(name);
  return taken;
}

/// Return the whole number that the text is; nothing for any other text.
std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

ServiceManager ServiceManager::take_from_environment() {
  ServiceManager manager;
  manager.socket_ = take_variable("NOTIFY_SOCKET");
  const std::string pid = take_variable("WATCHDOG_PID");
  const auto limit_us = whole_number(take_variable("WATCHDOG_USEC"));
  const bool for_us = pid.empty() || whole_number(pid) == ::getpid();
  constexpr std::int64_t kDayUs = 86'400'000'000;
  if (limit_us && *limit_us > 0 && for_us)
    manager.watchdog_ = std::chrono::microseconds(std::min(*limit_us, kDayUs));
  return manager;
}

bool ServiceManager::tell(std::string_view lines) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const bool known = socket_.starts_with('/') || socket_.starts_with('@');
  if (!known || socket_.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';  // a name without a file
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket.get() < 0) return false;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  return ::sendto(socket.get(), lines.data(), lines.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  size) == static_cast<ssize_t>(lines.size());
}

}  // namespace train
