#include "lib/data/plan/step_division.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lib/base/check.h"

namespace train::data {

Result<StepDivision> StepDivision::make(std::vector<std::int64_t> batch_sizes, int rank) {
  TRAIN_CHECK(rank >= 0 && rank < static_cast<int>(batch_sizes.size()),
              "a batch size for each rank");
  for (std::size_t of = 0; of < batch_sizes.size(); ++of) {
    if (batch_sizes[of] < 1) {
      return Error{Errc::InvalidArgument,
                   fmt::format("batch_size is {} on rank {}", batch_sizes[of], of),
                   "give at least 1"};
    }
    if (batch_sizes[of] > kBatchSizeMax) {
      return Error{Errc::InvalidArgument,
                   fmt::format("batch_size is {} on rank {}", batch_sizes[of], of),
                   fmt::format("give at most {}", kBatchSizeMax)};
    }
  }
  return StepDivision(std::move(batch_sizes), rank);
}

StepDivision::StepDivision(std::vector<std::int64_t> sizes, int rank)
    : sizes_(std::move(sizes)), rank_(rank) {
  step_rows_ = std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0});
  rows_before_ = std::accumulate(sizes_.begin(), sizes_.begin() + rank_, std::int64_t{0});
}

std::int64_t StepDivision::steps(std::int64_t rows, bool drop_last) const {
  return rows / step_rows_ + (drop_last || rows % step_rows_ == 0 ? 0 : 1);
}

std::int64_t StepDivision::own_lanes(std::int64_t lanes) const {
  // The first and the last of the lanes may be shared with other ranks.
  const auto mine = static_cast<__int128>(batch_size()) * lanes;
  return std::min(lanes, static_cast<std::int64_t>((mine + step_rows_ - 1) / step_rows_) + 1);
}

/// The last, shorter step is divided in proportion to the batch sizes. The first ranks get one of
/// the remaining rows each, and all ranks pad to the proportion rounded up.
StepDivision::Slice StepDivision::slice_of(std::int64_t rows) const {
  const auto rank = static_cast<std::size_t>(rank_);
  const auto weight_of = [&](std::int64_t valid) {
    return rows == 0 ? 1.0
                     : static_cast<double>(valid) * static_cast<double>(sizes_.size()) /
                           static_cast<double>(rows);
  };
  if (rows == step_rows_)
    return {rows_before_, sizes_[rank], sizes_[rank], weight_of(sizes_[rank])};
  // 64 bits do not hold the product of the largest batches.
  const auto product = [&](std::size_t r) { return static_cast<__int128>(rows) * sizes_[r]; };
  const auto whole = [&](std::size_t r) {
    return static_cast<std::int64_t>(product(r) / step_rows_);
  };
  std::int64_t left_over = rows;
  for (std::size_t r = 0; r < sizes_.size(); ++r) left_over -= whole(r);
  Slice slice;
  for (std::size_t r = 0; r <= rank; ++r) {
    // This fits, since a shorter step leaves room on each rank.
    const std::int64_t one_more = left_over > 0 ? 1 : 0;
    left_over -= one_more;
    slice.begin += slice.valid;
    slice.valid = whole(r) + one_more;
  }
  const std::int64_t rounded_up = whole(rank) + (product(rank) % step_rows_ == 0 ? 0 : 1);
  slice.padded = std::max(slice.valid, rounded_up);
  slice.weight = weight_of(slice.valid);
  return slice;
}

std::vector<std::int64_t> weigh(const std::vector<std::int64_t>& batch_sizes,
                                const std::vector<double>& weights) {
  TRAIN_CHECK(batch_sizes.size() == weights.size(), "a weight for each batch size");
  std::int64_t total = 0;
  double sum = 0;
  for (std::size_t rank = 0; rank < batch_sizes.size(); ++rank) {
    total += batch_sizes[rank];
    sum += static_cast<double>(batch_sizes[rank]) * weights[rank];
  }
  std::vector<std::int64_t> parts;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t left = total;
  for (std::size_t rank = 0; rank < batch_sizes.size(); ++rank) {
    const double share =
        static_cast<double>(total) * (static_cast<double>(batch_sizes[rank]) * weights[rank] / sum);
    parts.push_back(std::min(left, static_cast<std::int64_t>(share)));
    left -= parts.back();
    remainders.emplace_back(static_cast<double>(parts.back()) - share, rank);
  }
  std::sort(remainders.begin(), remainders.end());
  for (std::size_t at = 0; left > 0; at = (at + 1) % remainders.size(), --left)
    ++parts[remainders[at].second];
  for (std::int64_t& part : parts) {
    if (part > 0) continue;
    --*std::max_element(parts.begin(), parts.end());
    part = 1;
  }
  return parts;
}

std::vector<std::int64_t> balance(const std::vector<std::int64_t>& batch_sizes,
                                  const std::vector<double>& speeds) {
  constexpr double kAlike = 1.05, kLeast = 0.25, kMost = 2;
  const auto [slowest, fastest] = std::minmax_element(speeds.begin(), speeds.end());
  if (*fastest <= *slowest * kAlike) return batch_sizes;
  const auto ranks = static_cast<std::int64_t>(batch_sizes.size());
  const std::int64_t total =
      std::accumulate(batch_sizes.begin(), batch_sizes.end(), std::int64_t{0});
  std::vector<std::int64_t> equal(batch_sizes.size(), total / ranks);
  for (std::int64_t rank = 0; rank < total % ranks; ++rank) ++equal[static_cast<std::size_t>(rank)];
  // Who is cut off leaves its rest to the others, until their mean is 1.
  std::vector<double> weights = speeds;
  for (int round = 0; round < 50; ++round) {
    const double mean =
        std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(ranks);
    for (double& weight : weights) weight = std::clamp(weight / mean, kLeast, kMost);
  }
  return weigh(equal, weights);
}

}  // namespace train::data
