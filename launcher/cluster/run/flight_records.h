// The records of NCCL's flight recorders that supervisors put into an attempt's folder
// (flight_records/rank-N). Workers could have written them. Calls block.
#pragma once

#include <string>

#include "lib/base/time.h"

namespace train {

/// Remove the records of an earlier time: they say nothing about now.
void remove_flight_records(const std::string& folder);

/// Compare the records. Return what they say, line by line; "" if there are none. Reads no further
/// one once the time has come, and says so.
std::string flight_records_text(const std::string& folder, TimePoint until);

}  // namespace train
