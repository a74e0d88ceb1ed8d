// How the values of a tensor are distributed: counts of bins of equal width. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace train {

struct Histogram {
  double min = 0, max = 0;            // of the finite values; 0 if there is none
  std::vector<std::uint64_t> counts;  // of bins from min to max; the last one includes max
  std::uint64_t nans = 0, infinities = 0;
  bool operator==(const Histogram&) const = default;
};
using Histograms = std::vector<std::pair<std::string, Histogram>>;

/// Makes a histogram in two passes over the values, which may come in pieces: look at all of them,
/// then count all of them. If all finite values are equal, they are in one bin.
class HistogramCounter {
 public:
  explicit HistogramCounter(std::size_t bins) : bins_(bins) {}
  template <class T>  // float or double
  void look(std::span<const T> values);
  template <class T>
  void count(std::span<const T> values);
  const Histogram& histogram();

 private:
  void begin_counts();

  std::size_t bins_;
  bool any_ = false;  // finite value
  double half_width_ = 0;
  Histogram made_;
};

}  // namespace train
