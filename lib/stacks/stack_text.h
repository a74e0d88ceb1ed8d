// Stacks as text: the classes and the notes, then every thread. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/stacks/stack_classes.h"

namespace train {

inline constexpr std::size_t kStackReportBytesMax = 4u << 20;

/// Return a text for a file or a terminal; steering characters are made visible. It ends with how
/// many threads were left out if it would exceed `bytes_max`.
std::string describe_stacks(const std::vector<RankStacks>& ranks,
                            std::size_t bytes_max = kStackReportBytesMax);

}  // namespace train
