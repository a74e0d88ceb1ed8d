#include "launcher/core/search/median_rule.h"

#include <algorithm>
#include <cmath>

namespace train {

bool MedianRule::reported(int trial, double time, double value) {
  const auto index = static_cast<std::size_t>(trial);
  if (trials_.size() <= index) trials_.resize(index + 1);
  History& mine = trials_[index];
  const auto better = [this](double a, double b) {
    return mode_ == SearchMode::Min ? a < b : a > b;
  };
  const bool counts = std::isfinite(value);
  if (counts && (!mine.best || better(value, *mine.best))) mine.best = value;
  if (time < static_cast<double>(spec_.grace_time)) return false;
  Sum sum = mine.sums.empty() ? Sum{} : mine.sums.back();
  sum.time = time;
  if (counts) sum.sum += value, ++sum.count;
  mine.sums.push_back(sum);
  if (mine.sums.size() > kKeptMax) {  // sums of what is left out are in those that are kept
    std::size_t kept = 0;
    for (std::size_t i = 1; i < mine.sums.size(); i += 2) mine.sums[kept++] = mine.sums[i];
    if (mine.sums.size() % 2 == 1) mine.sums[kept++] = mine.sums.back();
    mine.sums.resize(kept);
  }

  std::vector<double> means;
  int reached = 0;
  for (std::size_t other = 0; other < trials_.size(); ++other) {
    const std::vector<Sum>& sums = trials_[other].sums;
    if (other == index || sums.empty() || sums.back().time < time) continue;
    ++reached;
    const auto after = std::upper_bound(sums.begin(), sums.end(), time,
                                        [](double t, const Sum& one) { return t < one.time; });
    if (after == sums.begin() || std::prev(after)->count == 0) continue;
    means.push_back(std::prev(after)->sum / static_cast<double>(std::prev(after)->count));
  }
  if (reached < spec_.min_samples || means.empty() || !mine.best) return false;
  std::sort(means.begin(), means.end());
  const std::size_t half = means.size() / 2;
  const double median = means.size() % 2 == 1 ? means[half] : (means[half - 1] + means[half]) / 2;
  return better(median, *mine.best);
}

}  // namespace train
