// For what the kernel does a moment later and tells nobody of: the only place where unit tests look
// again and again.
#pragma once

#include <poll.h>

#include <chrono>

namespace train::fakes {

/// Whether `condition` came to hold, within far more time than it takes.
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
