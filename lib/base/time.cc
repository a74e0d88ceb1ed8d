#include "lib/base/time.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace train {

std::string format_utc(std::chrono::system_clock::time_point wall) {
  const auto since_epoch =
      std::chrono::duration_cast<std::chrono::microseconds>(wall.time_since_epoch());
  const auto whole = std::chrono::floor<std::chrono::seconds>(since_epoch);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:06}Z",
                     fmt::gmtime(static_cast<std::time_t>(whole.count())),
                     (since_epoch - whole).count());
}

std::chrono::system_clock::time_point parse_utc(const std::string& text) {
  std::tm parts{};
  long micros = 0;
  if (std::sscanf(text.c_str(), "%d-%d-%dT%d:%d:%d.%6ldZ", &parts.tm_year, &parts.tm_mon,
                  &parts.tm_mday, &parts.tm_hour, &parts.tm_min, &parts.tm_sec, &micros) != 7)
    return {};
  parts.tm_year -= 1900;
  parts.tm_mon -= 1;
  return std::chrono::system_clock::from_time_t(::timegm(&parts)) +
         std::chrono::microseconds(micros);
}

std::string format_duration(Duration duration) {
  using namespace std::chrono;
  const double total = duration_cast<std::chrono::duration<double>>(duration).count();
  if (total < 1) return fmt::format("{:.0f} ms", total * 1e3);
  if (total < 60) return fmt::format("{:.1f} s", total);
  const auto whole = static_cast<long long>(total);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace train
