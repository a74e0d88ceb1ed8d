// Forks real processes from a test as the ranks of a group, with a store port that the parent has
// bound, as a supervisor does.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace train::testing {

/// How one rank ended.
struct RankEnd {
  int exit_code = -1;  // -1: a signal ended it
  int signal = 0;
  std::string result;  // what its body returned, or "error: " and the exception's text
};

/// Fork `world_size` ranks, run `body` in each, and wait for all. Kill a rank that has not ended by
/// `deadline` (its end shows SIGKILL). The calling process must not have run tensor operations:
/// threads do not survive a fork.
std::vector<RankEnd> run_ranks(int world_size, const std::function<std::string(int rank)>& body,
                               std::chrono::seconds deadline = std::chrono::seconds(60));

/// Return the results if all ranks succeeded, else one line per rank with what happened.
std::vector<std::string> results(const std::vector<RankEnd>& ends);

}  // namespace train::testing
