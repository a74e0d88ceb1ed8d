#include "launcher/cluster/store_trouble.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>

namespace train {

std::function<void(const std::string&)> say_store_trouble() {
  using Clock = std::chrono::steady_clock;
  return [said = std::optional<Clock::time_point>()](const std::string& text) mutable {
    const auto now = Clock::now();
    if (said && now - *said < std::chrono::seconds(5)) return;
    said = now;
    fmt::print(stderr, "train-run: {}\n", text);
  };
}

}  // namespace train
