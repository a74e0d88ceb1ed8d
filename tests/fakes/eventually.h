// For kernel effects that come a moment later without a notification. Unit tests poll nowhere else.
#pragma once

#include <poll.h>

#include <chrono>

namespace train::fakes {

/// Return whether `condition` came to hold within a limit far longer than it needs.
template <class Condition>
bool eventually(Condition&& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

}  // namespace train::fakes
