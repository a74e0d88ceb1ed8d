#include "lib/base/histogram.h"

#include <algorithm>
#include <cmath>

namespace train {

template <class T>
void HistogramCounter::look(std::span<const T> values) {
  for (const T given : values) {
    const double value = given;
    if (std::isnan(value)) {
      ++made_.nans;
    } else if (std::isinf(value)) {
      ++made_.infinities;
    } else {
      made_.min = any_ ? std::min(made_.min, value) : value;
      made_.max = any_ ? std::max(made_.max, value) : value;
      any_ = true;
    }
  }
}

void HistogramCounter::begin_counts() {
  if (!made_.counts.empty()) return;
  // Of halves: the whole range of two doubles may be too large for one.
  half_width_ = (made_.max / 2 - made_.min / 2) / static_cast<double>(bins_);
  made_.counts.resize(half_width_ > 0 ? bins_ : 1);
}

const Histogram& HistogramCounter::histogram() {
  begin_counts();
  return made_;
}

template <class T>
void HistogramCounter::count(std::span<const T> values) {
  begin_counts();
  const auto last = static_cast<double>(made_.counts.size() - 1);
  for (const T given : values) {
    const double value = given;
    if (!std::isfinite(value)) continue;
    // Clamped, since another thread may have changed the value since we looked.
    const double bin = last > 0 ? (value / 2 - made_.min / 2) / half_width_ : 0;
    ++made_.counts[static_cast<std::size_t>(std::clamp(bin, 0.0, last))];
  }
}

template void HistogramCounter::look(std::span<const float>);
template void HistogramCounter::look(std::span<const double>);
template void HistogramCounter::count(std::span<const float>);
template void HistogramCounter::count(std::span<const double>);

}  // namespace train
