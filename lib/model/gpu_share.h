// How many GPUs workers take that each claim some, or a part of one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace train {

/// Return how many whole GPUs so many workers take. Workers that claim a part of a GPU have it from
/// one GPU, which takes as many of them as their parts fit.
inline std::size_t gpus_for(double claim_of_each, int workers) {
  constexpr double kSlack = 1e-6;  // claims may be fractions such as 0.1
  if (!(claim_of_each > 0) || workers <= 0) return 0;
  const double gpus = claim_of_each >= 1
                          ? workers * std::min(claim_of_each, 1e6)
                          : workers / std::floor(1 / std::max(claim_of_each, 1e-6) + kSlack);
  return static_cast<std::size_t>(std::ceil(gpus - kSlack));
}

}  // namespace train
