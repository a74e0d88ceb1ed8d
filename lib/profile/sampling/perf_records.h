// Reads what perf_event_open(2) writes: samples with the registers and the stack of a thread. Pure.
#pragma once

#include <functional>
#include <string_view>

#include "lib/stacks/process_capture.h"

namespace train {

struct PerfCounts {
  std::uint64_t lost = 0;  // samples that had no room
};

/// The registers that samples have, as perf numbers them: those with a DWARF number.
inline constexpr std::uint64_t kPerfRegisters = 0xFF01FF;

/// Pass on each sample in `records`, which begin with a perf_event_header each. Ends at a record
/// that is not complete.
void read_perf_records(std::string_view records, const std::function<void(ThreadCapture)>& sample,
                       PerfCounts& counts);

}  // namespace train
