// Writes sets of ranks for people: "0-3,7".
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace train {

/// Return "0-3,7" for these ranks, which are sorted. Two neighbours are a range, too.
std::string rank_ranges(std::span<const std::int32_t> ranks);

}  // namespace train
