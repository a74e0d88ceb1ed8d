#include "lib/base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

namespace train {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kHuge = std::numeric_limits<double>::max();

template <class T>
Histogram histogram(const std::vector<T>& values, std::size_t bins, std::size_t piece = 1000) {
  HistogramCounter counter(bins);
  const auto for_pieces = [&](const auto& f) {
    for (std::size_t i = 0; i < values.size(); i += piece)
      f(std::span<const T>(values).subspan(i, std::min(piece, values.size() - i)));
  };
  for_pieces([&](std::span<const T> values) { counter.look(values); });
  for_pieces([&](std::span<const T> values) { counter.count(values); });
  return counter.histogram();
}

using Counts = std::vector<std::uint64_t>;

TEST(Histogram, CountsBinsOfEqualWidth) {
  const std::vector<double> values{0, 0.5, 1, 1.5, 2, 2.5, 3, 4};
  const Histogram made = histogram(values, 4);
  EXPECT_EQ(made.min, 0);
  EXPECT_EQ(made.max, 4);
  EXPECT_EQ(made.counts, (Counts{2, 2, 2, 2}));  // the last bin includes the maximum
  EXPECT_EQ(histogram(values, 4, 3), made) << "in pieces";
  EXPECT_EQ(histogram(std::vector<float>(values.begin(), values.end()), 4), made);
}

TEST(Histogram, CountsApartWhatIsNotFinite) {
  const Histogram made = histogram(std::vector<double>{kNan, -1, kInf, 1, -kInf, kNan, kNan}, 2);
  EXPECT_EQ(made, (Histogram{.min = -1, .max = 1, .counts = {1, 1}, .nans = 3, .infinities = 2}));
}

TEST(Histogram, PutsEqualValuesIntoOneBin) {
  EXPECT_EQ(histogram(std::vector<double>{7, 7, 7, kNan}, 30),
            (Histogram{.min = 7, .max = 7, .counts = {3}, .nans = 1, .infinities = 0}));
}

TEST(Histogram, HasNoValuesWhereNoneIsFinite) {
  EXPECT_EQ(histogram(std::vector<double>{}, 5).counts, (Counts{0}));
  EXPECT_EQ(histogram(std::vector<double>{kNan, kInf}, 5),
            (Histogram{.min = 0, .max = 0, .counts = {0}, .nans = 1, .infinities = 1}));
}

TEST(Histogram, CoversTheRangeOfDoubles) {
  const Histogram made = histogram(std::vector<double>{-kHuge, -1, 1, kHuge}, 2);
  EXPECT_EQ(made.min, -kHuge);
  EXPECT_EQ(made.max, kHuge);
  EXPECT_EQ(made.counts[0] + made.counts[1], 4u);
  EXPECT_GE(made.counts[0], 1u);
  EXPECT_GE(made.counts[1], 1u);
}

// Another thread may write to what we read.
TEST(Histogram, StaysInItsBinsWhenValuesChangeMeanwhile) {
  HistogramCounter counter(3);
  const std::vector<double> before{0, 3}, after{-kHuge, kHuge};
  counter.look(std::span(before));
  counter.count(std::span(after));
  EXPECT_EQ(counter.histogram().counts, (Counts{1, 0, 1}));
}

}  // namespace
}  // namespace train
