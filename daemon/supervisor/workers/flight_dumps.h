// Asks the flight recorders of NCCL in the workers for dumps, and keeps these in the run's folder.
// A process with a group on NCCL makes a pipe; a byte in it makes LibTorch write its record to a
// file, on a thread of its own, whatever the other threads wait for. Calls block.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/base/time.h"

namespace train {

/// LibTorch looks at its pipe once a second, and then writes.
inline constexpr Duration kFlightDumpsWithin = seconds(4);

/// Return the variables that tell LibTorch where its pipe and its dump are to be.
std::map<std::string, std::string> flight_variables(const std::string& spool_dir);

/// Ask the recorders of these ranks. Return the ranks that have one.
std::vector<std::int32_t> ask_flight_recorders(const std::string& spool_dir,
                                               const std::vector<std::int32_t>& ranks);

/// Wait until the dumps of these ranks are complete, or the time has come, and put those that are
/// into `folder` as rank-N. Does nothing if the folder around it does not exist: this node does not
/// see the run's storage.
void keep_flight_dumps(const std::string& spool_dir, const std::vector<std::int32_t>& ranks,
                       const std::string& folder, TimePoint until);

}  // namespace train
