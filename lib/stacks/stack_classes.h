// Merges the stacks of many ranks into classes, so that the one rank that is elsewhere stands out
// (the equivalence classes of LLNL's STAT: Arnold et al., "Stack Trace Analysis for Large Scale
// Debugging", IPDPS 2007). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/stacks/process_stacks.h"

namespace train {

struct RankStacks {
  std::int32_t rank = 0;
  std::string node{};  // shown with the rank; may be empty
  ProcessStacks process{};
};

/// Ranks whose main threads are in the same functions, whatever the lines.
struct StackClass {
  std::vector<std::int32_t> ranks{};     // ascending
  std::vector<std::string> functions{};  // the key: short names, innermost first
  bool has_stack = true;                 // false: `where` says why not
  bool waits_for_others = false;         // in a collective call, or for a GPU that may be in one
  std::string where{};                   // "c10d::allreduce <- train_digits main.cc:88"
  bool operator==(const StackClass&) const = default;
};

/// Return the classes, the largest first, of equal ones that of the lowest rank.
std::vector<StackClass> stack_classes(const std::vector<RankStacks>& ranks);

/// Return a line for each class: "ranks 0-2,4-7 (7) in c10d::allreduce <- train_digits main.cc:88".
std::string describe_classes(const std::vector<StackClass>& classes);

inline constexpr std::size_t kDescribedClassesMax = 64;

}  // namespace train
