// Divides the rows of a step among the ranks, by their batch sizes. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

// Rows per step of one rank. It keeps the sums over the ranks far from overflow.
inline constexpr std::int64_t kBatchSizeMax = (std::int64_t{1} << 31) - 1;

class StepDivision {
 public:
  /// InvalidArgument for a batch size below 1 or above kBatchSizeMax.
  static Result<StepDivision> make(std::vector<std::int64_t> batch_sizes, int rank);

  struct Slice {  // one rank's part of a step's rows
    std::int64_t begin = 0;
    std::int64_t valid = 0;
    std::int64_t padded = 0;
    double weight = 1;  // the valid rows' part of the step's, times the number of ranks
  };
  /// Return this rank's part of a step with `rows` rows.
  Slice slice_of(std::int64_t rows) const;
  /// Return the rows of a full step, of all ranks.
  std::int64_t step_rows() const { return step_rows_; }
  std::int64_t batch_size() const { return sizes_[static_cast<std::size_t>(rank_)]; }
  /// Return how many steps `rows` rows make; with `drop_last`, only full ones.
  std::int64_t steps(std::int64_t rows, bool drop_last) const;
  /// Return how many of `lanes` neighbouring lanes a rank's rows of a step lie in, at most.
  std::int64_t own_lanes(std::int64_t lanes) const;

 private:
  StepDivision(std::vector<std::int64_t> sizes, int rank);

  std::vector<std::int64_t> sizes_;  // by rank
  int rank_;
  std::int64_t step_rows_ = 0;
  std::int64_t rows_before_ = 0;  // of the lower ranks, in a full step
};

/// Divide the sum of the batch sizes among the ranks in proportion to size * weight: at least one
/// row each, the largest remainders rounded up. Weights are positive, and there is one for each
/// size.
std::vector<std::int64_t> weigh(const std::vector<std::int64_t>& batch_sizes,
                                const std::vector<double>& weights);

/// Divide the sum of the batch sizes among ranks that did so many rows per second. No rank gets
/// more than about twice an equal part, or less than a quarter of it; speeds that differ by less
/// than 5 % are no reason to change `batch_sizes`.
std::vector<std::int64_t> balance(const std::vector<std::int64_t>& batch_sizes,
                                  const std::vector<double>& speeds);

}  // namespace train::data
