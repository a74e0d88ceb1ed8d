#include "daemon/server/service_status.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {
namespace {

constexpr Duration kWithoutWatchdog = std::chrono::hours(1), kLeast = milliseconds(50);

std::string counted(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::string service_status_text(const NodeCounts& counts) {
  if (counts.adopting) return "looking for the supervisors of an earlier traind";
  return fmt::format("{}{}, {}", counts.draining ? "draining: " : "", counted(counts.runs, "run"),
                     counted(counts.supervisors, "supervisor"));
}

asio::awaitable<void> ServiceStatus::run() {
  const Duration limit = manager_.watchdog().value_or(kWithoutWatchdog);
  const Duration every = std::max<Duration>(limit / 3, kLeast);  // one may come late
  bool ready = false;
  std::string told;
  for (;;) {
    const NodeCounts counts = counts_();
    std::string lines = manager_.watchdog() ? "WATCHDOG=1\n" : "";
    const std::string text = service_status_text(counts);
    if (!ready && !counts.adopting) lines += "READY=1\n";
    if (text != told) lines += "STATUS=" + text + "\n";
    if (!lines.empty() && manager_.tell(lines)) {  // what was not taken is said again
      ready = ready || !counts.adopting;
      told = text;
    }
    const auto woken = co_await changed_.wait_until(std::chrono::steady_clock::now() + every);
    if (woken.has_error()) co_return;
  }
}

}  // namespace train
