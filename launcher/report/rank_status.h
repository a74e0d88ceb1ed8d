// Shows the newest values of a run's ranks as `train-run status` does. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/samples/sample_table.h"

namespace train {

/// Ranks that people are shown. If there are more, those that are worst off come first.
inline constexpr std::size_t kShownRanksMax = 64;
/// Older values are shown with their age.
inline constexpr std::int64_t kFreshMs = 10'000;

/// Return a heading and a line for each rank: what it is doing now, its steps, what it uses. "" if
/// nothing is known of ranks. `newest`: of read_newest_samples(). `age_ms`: of these values.
std::string rank_status_text(const std::vector<SampleTable>& newest, std::int64_t age_ms);

}  // namespace train
