#include "launcher/cluster/checkpoints/store_trouble.h"

#include <chrono>
#include <optional>

#include "lib/base/print.h"

namespace train {

std::function<void(const std::string&)> say_store_trouble() {
  using Clock = std::chrono::steady_clock;
  return [said = std::optional<Clock::time_point>()](const std::string& text) mutable {
    const auto now = Clock::now();
    if (said && now - *said < std::chrono::seconds(5)) return;
    said = now;
    print_err("train-run: {}\n", text);
  };
}

}  // namespace train
