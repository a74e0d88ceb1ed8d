// The metrics of a pass over the data, of all ranks. Pure.
#pragma once

#include <train/config.h>

#include <map>
#include <string>
#include <vector>

namespace train::trainer {

/// Read what the ranks' operators have answered to `call`. Of a pass that had been done before,
/// rank 0's answer has the metrics of all ranks. Throws a Failure of the operator's kind for a call
/// that it refuses, and Failure("corrupt") for an answer that is none.
std::vector<Dict> pass_metrics(const std::string& call, const std::map<int, Value>& answers);

/// Return the means over the ranks, weighted by their num_samples (1, where there are none), of
/// which the sum is the result's; rank 0's of epoch, batch_count and what is no number. Null is a
/// number that JSON lacks: NaN.
Dict reduced_metrics(const std::vector<Dict>& ranks);

}  // namespace train::trainer
