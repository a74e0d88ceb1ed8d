// This file decides when to try again and when to stop. The pauses double, up to a limit, and are
// partly random, so that the ranks of a large run do not all come back at once. Pure, except for
// the randomness.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <random>
#include <thread>

#include "lib/base/time.h"
#include "lib/storage/object_store.h"

namespace train::remote {

inline constexpr Duration kFirstPause = milliseconds(100);
inline constexpr Duration kPauseMax = seconds(10);

/// Return the pause before the `tries`-th repetition, counted from 0. The actual wait lasts between
/// half of it and all of it.
inline Duration pause_before(std::int64_t tries) {
  return std::min<Duration>(kPauseMax, kFirstPause * (1LL << std::min<std::int64_t>(tries, 20)));
}
inline Duration with_chance(Duration pause) {
  thread_local std::minstd_rand chance{std::random_device{}()};
  return pause / 2 +
         Duration(static_cast<std::int64_t>(std::uniform_real_distribution<>(0, 0.5)(chance) *
                                            static_cast<double>(pause.count())));
}
/// True once the program is ending, so that the background work of abandoned calls stops repeating.
inline std::atomic<bool> no_more_tries = false;
/// Return whether the pauses so far leave room for one more.
inline bool may_try_again(std::int64_t tries, Duration retry_timeout) {
  if (no_more_tries) return false;
  Duration waited{};
  for (std::int64_t i = 0; i < tries && waited < retry_timeout; ++i) waited += pause_before(i);
  return waited < retry_timeout;
}

/// Wait, but only until the program ends or `cancelled` returns true.
inline void pause(Duration length, const std::function<bool()>& cancelled) {
  constexpr Duration kSlice = milliseconds(50);
  for (Duration left = length; left > Duration::zero() && !no_more_tries; left -= kSlice) {
    if (cancelled && cancelled()) return;
    std::this_thread::sleep_for(std::min(left, kSlice));
  }
}

/// Repeat `once` until it succeeds, fails with an error other than Unavailable, or retry_timeout
/// ends, or until `cancelled` returns true. Before each repetition, call on_retry and sleep.
auto insist(const ObjectStoreOptions& options, const auto& once,
            const std::function<bool()>& cancelled = {}) -> decltype(once()) {
  for (std::int64_t tries = 0;; ++tries) {
    auto done = once();
    if (!done.has_error() || done.error().code != Errc::Unavailable ||
        !may_try_again(tries, options.retry_timeout))
      return done;
    if (options.on_retry) options.on_retry(done.error().message + "; trying again");
    pause(with_chance(pause_before(tries)), cancelled);
    if (cancelled && cancelled()) return Error{Errc::Cancelled, "given up"};
  }
}

}  // namespace train::remote
