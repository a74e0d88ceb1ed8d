// Why a run has not succeeded: what its driver is told of it, and what fit() throws.
#pragma once

#include <train/trainer.h>

#include <optional>
#include <string>

namespace train::trainer {

inline constexpr int kNoRank = -1;

/// Return what an event `exception` says.
AttemptFailure attempt_failure(const Dict& exception);
/// Return the rank whose failure is the root cause of the attempt's, if it is one rank's; else
/// kNoRank.
int root_rank(const Dict& exception);
/// Throw what the end of a run calls for that has not succeeded. `failure`: of its last attempt.
[[noreturn]] void throw_error_of(RunResult result, const std::string& text,
                                 std::optional<AttemptFailure> failure);

}  // namespace train::trainer
