#include "sdk/client/report_time.h"

#include <chrono>

#include "lib/progress/progress_clock.h"

namespace train::sdk {
namespace {

constexpr std::uint64_t kOffsetAgeMaxNs = 100'000'000;

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

ReportTime report_time() {
  thread_local std::int64_t offset_ns = 0;  // of the wall clock
  thread_local std::uint64_t read_at = 0;   // 0: never
  const std::uint64_t now = progress_now();
  if (read_at == 0 || now - read_at >= kOffsetAgeMaxNs) {
    offset_ns = wall_ns() - static_cast<std::int64_t>(now);
    read_at = now;
  }
  return {now, (static_cast<std::int64_t>(now) + offset_ns) / 1000};
}

}  // namespace train::sdk
