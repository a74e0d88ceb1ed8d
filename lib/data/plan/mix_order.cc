#include "lib/data/plan/mix_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace train::data {
namespace {

/// Rows of one dataset: their sums stay far from overflow.
constexpr std::int64_t kRowsMax = std::int64_t{1} << 52;

}  // namespace

std::vector<std::int64_t> whole_weights(const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  // The smallest cycle that has the weights exactly, or else nearly.
  const auto rounded = [&](std::int64_t cycle) {
    std::vector<std::int64_t> whole;
    for (const double weight : weights) {
      const double exact = weight / sum * static_cast<double>(cycle);
      whole.push_back(std::max<std::int64_t>(1, std::llround(exact)));
    }
    return whole;
  };
  for (std::int64_t cycle = 1; cycle < kMixCycleMax; ++cycle) {
    auto whole = rounded(cycle);
    bool exact = true;
    for (std::size_t i = 0; i < weights.size(); ++i)
      exact = exact && std::abs(weights[i] / sum * static_cast<double>(cycle) -
                                static_cast<double>(whole[i])) < 1e-9;
    if (exact) return whole;
  }
  // Room for a 1 in place of what would be 0.
  return rounded(kMixCycleMax - static_cast<std::int64_t>(kMixSourcesMax));
}

MixOrder::Segment MixOrder::segment(std::int64_t begin, const std::vector<std::int64_t>& weights,
                                    std::vector<std::int64_t> base) {
  Segment segment{.begin = begin, .base = std::move(base)};
  const std::int64_t cycle = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::vector<std::int64_t> given(weights.size(), 0);
  segment.before.resize(weights.size());
  for (std::int64_t place = 0; place < cycle; ++place) {
    std::size_t most = 0;
    std::int64_t lag = std::numeric_limits<std::int64_t>::min();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      segment.before[i].push_back(given[i]);
      const std::int64_t behind = weights[i] * (place + 1) - cycle * given[i];
      if (weights[i] > 0 && behind > lag) {
        lag = behind;
        most = i;
      }
    }
    segment.table.push_back(static_cast<int>(most));
    ++given[most];
  }
  for (std::size_t i = 0; i < weights.size(); ++i) segment.before[i].push_back(given[i]);
  return segment;
}

/// Return the first position at which the segment needs a row that the dataset does not have.
std::int64_t MixOrder::used_up_at(const Segment& segment, int source) const {
  const auto& before = segment.before[static_cast<std::size_t>(source)];
  const std::int64_t each = before.back();
  if (each == 0) return std::numeric_limits<std::int64_t>::max();
  const std::int64_t left = rows_of(source) - segment.base[static_cast<std::size_t>(source)];
  const auto cycle = static_cast<std::int64_t>(segment.table.size());
  // The place in a cycle where it has had left % each rows, and gets another.
  const auto place =
      std::upper_bound(before.begin(), before.end(), left % each) - before.begin() - 1;
  return segment.begin + left / each * cycle + place;
}

Result<MixOrder> MixOrder::make(const MixSpec& spec) {
  const std::size_t count = spec.weights.size();
  if (count == 0 || count > kMixSourcesMax || spec.rows.size() != count)
    return Error{Errc::InvalidArgument, fmt::format("a mix of {} datasets", count),
                 fmt::format("mix 1 to {}", kMixSourcesMax)};
  for (const double weight : spec.weights) {
    if (!(weight > 0) || !std::isfinite(weight))
      return Error{Errc::InvalidArgument, fmt::format("a weight is {}", weight),
                   "give one above 0"};
  }
  for (const std::int64_t rows : spec.rows) {
    if (rows < 1 || rows > kRowsMax)
      return Error{Errc::InvalidArgument, fmt::format("a dataset of a mix has {} rows", rows)};
  }
  MixOrder order(spec.rows);
  std::vector<std::int64_t> weights = whole_weights(spec.weights);
  order.segments_.push_back(segment(0, weights, std::vector<std::int64_t>(count, 0)));
  if (spec.end == MixEnd::Rows) {
    if (spec.epoch_rows < 1 || spec.epoch_rows > kRowsMax)
      return Error{Errc::InvalidArgument, fmt::format("an epoch of {} rows", spec.epoch_rows)};
    order.total_ = spec.epoch_rows;
    return order;
  }
  for (;;) {
    const Segment& last = order.segments_.back();
    std::vector<std::int64_t> ends;
    for (int source = 0; source < order.sources(); ++source)
      ends.push_back(order.used_up_at(last, source));
    const std::int64_t end = *std::min_element(ends.begin(), ends.end());
    order.total_ = end;
    if (spec.end == MixEnd::Shortest) return order;
    std::vector<std::int64_t> base;
    for (int source = 0; source < order.sources(); ++source) {
      const auto at = static_cast<std::size_t>(source);
      base.push_back(before(last, source, end));
      if (base.back() == order.rows_[at]) weights[at] = 0;
    }
    if (std::accumulate(weights.begin(), weights.end(), std::int64_t{0}) == 0) return order;
    order.segments_.push_back(segment(end, weights, std::move(base)));
  }
}

const MixOrder::Segment& MixOrder::segment_of(std::int64_t position) const {
  const auto after =
      std::upper_bound(segments_.begin(), segments_.end(), position,
                       [](std::int64_t at, const Segment& segment) { return at < segment.begin; });
  return *std::prev(after);
}

std::int64_t MixOrder::before(const Segment& segment, int source, std::int64_t position) {
  const auto at = static_cast<std::size_t>(source);
  const auto cycle = static_cast<std::int64_t>(segment.table.size());
  const std::int64_t inside = position - segment.begin;
  return segment.base[at] + inside / cycle * segment.before[at].back() +
         segment.before[at][static_cast<std::size_t>(inside % cycle)];
}

int MixOrder::source_at(std::int64_t position) const {
  const Segment& segment = segment_of(position);
  const auto cycle = static_cast<std::int64_t>(segment.table.size());
  return segment.table[static_cast<std::size_t>((position - segment.begin) % cycle)];
}

std::int64_t MixOrder::before(int source, std::int64_t position) const {
  return before(segment_of(position), source, position);
}

}  // namespace train::data
