// Numbered names in paths: `shards/{000..127}.tar` stands for 128 files. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

/// The most names that one path may stand for.
inline constexpr std::int64_t kRangeNamesMax = 1'000'000;

/// Return the names that `pattern` stands for, in the order of the numbers, the last range counting
/// fastest; `pattern` itself if it has no range. As in Bash, a number with a leading zero gives all
/// of its range one width. Other braces are part of the name.
Result<std::vector<std::string>> expand_ranges(const std::string& pattern);

}  // namespace train::data
