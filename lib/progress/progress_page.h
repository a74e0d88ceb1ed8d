// The memory that a worker and its supervisor share: a page in which the SDK marks what the
// training loop is doing. The supervisor can read it whatever state the worker is in: deadlocked,
// stopped, or waiting for a disk. A mark costs a few plain stores (benchmarks/programs/mark_cost).
//
// The worker may write anything at any time, so the reader trusts no field. The size is sealed: a
// worker that could cut the memory off would kill its supervisor by SIGBUS.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "lib/model/worker_progress.h"

namespace train {

inline constexpr std::size_t kProgressBytes = 4096;
inline constexpr std::size_t kPhaseNameBytesMax = 64;
inline constexpr std::size_t kPhaseTextBytesMax = 96;

/// All times are nanoseconds of CLOCK_MONOTONIC, which both processes share. A later version only
/// adds fields at the end, which in an older page are zero: so any reader takes any version.
struct ProgressPage {
  static constexpr std::uint32_t kVersion = 2;  // 2: handed_over
  using Number = std::atomic<std::uint64_t>;
  static_assert(Number::is_always_lock_free);

  template <std::size_t N>
  struct Text {
    Number size{0};
    std::array<std::atomic<char>, N> bytes{};
  };
  struct Intervals {
    Number count{0}, total{0}, longest{0};
  };
  struct HandedOver {
    Number checkpoint_seq{0};  // 0: none
    Number step{0};            // the time in Phase::Step until then
  };

  std::atomic<std::uint32_t> version{0};  // 0: the worker has not marked anything yet
  std::atomic<std::uint32_t> unused{0};
  Number writes{0};  // odd while the worker writes: a sequence lock
  Number phase{0};
  Number limit{0};         // of the phase, set by the program; 0: none
  Number sign_of_life{0};  // when the last one was
  Number signs{0};
  Number steps{0};
  Number last_step{0};                                // how long it took
  Number collectives{0};                              // completed
  std::array<Intervals, kPhases.size()> intervals{};  // by phase
  Text<kPhaseNameBytesMax> name;
  Text<kPhaseTextBytesMax> text;
  std::array<HandedOver, kHandedOverMax> handed_over{};  // by checkpoint_seq, modulo its size
};
static_assert(sizeof(ProgressPage) <= kProgressBytes);

}  // namespace train
