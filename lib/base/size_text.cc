#include "lib/base/size_text.h"

#include <fmt/format.h>

#include <array>

namespace train {

std::string size_text(std::uint64_t bytes) {
  constexpr std::array kUnits{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr double kStep = 1024, kShown = 1023.95;  // the next would be shown as 1024.0
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double size = static_cast<double>(bytes) / kStep;
  std::size_t unit = 0;
  for (; size >= kShown && unit + 1 < kUnits.size(); ++unit) size /= kStep;
  return fmt::format("{:.1f} {}", size, kUnits[unit]);
}

}  // namespace train
