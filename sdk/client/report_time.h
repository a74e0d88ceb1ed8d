// The time of a report by two clocks, for the price of reading one: report() may be called in a
// tight loop, and a reading takes 22 ns (benchmarks/RESULTS.md).
#pragma once

#include <cstdint>

namespace train::sdk {

struct ReportTime {
  std::uint64_t monotonic_ns = 0;  // CLOCK_MONOTONIC, as progress_now()
  std::int64_t wall_us = 0;        // since the epoch
};

/// Return the present time. The wall time follows the monotonic clock: if somebody sets the
/// machine's clock, it is wrong for up to 0.1 s. Any thread.
ReportTime report_time();

}  // namespace train::sdk
