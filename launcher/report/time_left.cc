#include "launcher/report/time_left.h"

#include <algorithm>
#include <cmath>

namespace train {
namespace {

constexpr double kYearS = 365.0 * 24 * 3600;  // longer times are not estimated

}  // namespace

TimeLeft::TimeLeft(const std::vector<Goal>& goals) {
  for (const Goal& goal : goals) {
    if (std::isfinite(goal.value) && goal.value == std::floor(goal.value))
      counters_.push_back({.goal = goal, .first = {}, .newest = {}});
  }
}

void TimeLeft::reported(const Metrics& metrics, TimePoint now) {
  for (Counter& counter : counters_) {
    const auto value = number_of(metrics, counter.goal.metric);
    if (!value) continue;
    counter.whole = counter.whole && *value == std::floor(*value);
    if (!counter.first || *value < counter.newest->second)
      counter.first = counter.newest = {now, *value};
    if (*value > counter.newest->second) counter.newest = {now, *value};
  }
}

std::optional<Duration> TimeLeft::left(TimePoint now) const {
  std::optional<Duration> least;
  for (const Counter& counter : counters_) {
    if (!counter.whole || !counter.first || counter.newest->second <= counter.first->second)
      continue;
    const double moved = counter.newest->second - counter.first->second;
    const double took_s =
        std::chrono::duration<double>(counter.newest->first - counter.first->first).count();
    const double since_s = std::chrono::duration<double>(now - counter.newest->first).count();
    const double left_s =
        std::max(0.0, (counter.goal.value - counter.newest->second) * took_s / moved - since_s);
    if (left_s > kYearS) continue;
    const auto left = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(left_s));
    least = least ? std::min(*least, left) : left;
  }
  return least;
}

}  // namespace train
