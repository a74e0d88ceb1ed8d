// Compares the flight records of all ranks of a group that hangs: which rank lacks a call that
// others have made, and which calls do not match. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/flight/flight_record.h"

namespace train {

/// Return what the records say, a line each, the most telling first: for each process group the
/// calls that not all ranks have completed. Empty if there is none. A rank without a record counts
/// as not known.
std::vector<std::string> compare_flight_records(const std::map<std::int32_t, FlightRecord>& ranks);

}  // namespace train
