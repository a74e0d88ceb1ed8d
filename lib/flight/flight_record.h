// What the flight recorder of LibTorch's process groups has kept of one rank: its newest collective
// calls, by group. NCCL's groups and Gloo's write the same format (a pickle, version 2.x). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct FlightCall {
  std::string name = {};   // all_reduce
  std::string sizes = {};  // "Float [4, 2] -> [4, 2]"
  bool operator==(const FlightCall&) const = default;
};

struct FlightGroup {
  std::int64_t made = 0, completed = 0;  // the numbers of the newest collective calls; 0: none
  std::map<std::int64_t, FlightCall> calls = {};  // by number; the recorder forgets the oldest
  bool operator==(const FlightGroup&) const = default;
};

struct FlightRecord {
  std::map<std::string, FlightGroup> groups = {};  // by description and name
};

/// Read what a rank's recorder has written. Calls between two ranks (send, recv) are left out, and
/// of the others the oldest beyond `calls_max`, though each group keeps its newest.
Result<FlightRecord> read_flight_record(std::string_view bytes, std::size_t calls_max = 4096);

}  // namespace train
