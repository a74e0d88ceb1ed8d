#include "lib/samples/sample_thinner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

using testing::ElementsAre;

class SampleThinnerTest : public testing::Test {
 protected:
  std::vector<std::pair<std::int64_t, double>> taken;  // second and value
  SampleThinner thinner{[this](const SampleTable& table) {
    taken.emplace_back((table.end_ms - kNoon) / 1000, table.number("cpu", 0));
  }};
};

TEST_F(SampleThinnerTest, MergesWhatFallsIntoOneSpan) {
  for (int second = 1; second <= 12; ++second)
    thinner.add(ranks_at(second, {"0"}, "cpu", {1.0 * second}), 10'000);
  thinner.finish();

  EXPECT_THAT(taken, ElementsAre(std::pair(10, 5.5), std::pair(12, 11.5)));
}

TEST_F(SampleThinnerTest, DoesNotMergeKindsAttemptsAndSpans) {
  SampleTable node{.kind = SampleKind::Nodes, .end_ms = kNoon + 2000, .rows = {"a"}};
  add(node, "cpu", std::vector<double>{7});
  SampleTable later = ranks_at(3, {"0"}, "cpu", {3});
  later.attempt = 1;
  SampleTable as_it_is = ranks_at(4, {"0"}, "cpu", {4});
  as_it_is.attempt = 1;

  thinner.add(ranks_at(1, {"0"}, "cpu", {1}), 10'000);
  thinner.add(node, 10'000);
  thinner.add(later, 10'000);
  thinner.add(as_it_is, 0);
  thinner.finish();

  EXPECT_THAT(taken, ElementsAre(std::pair(1, 1.0), std::pair(3, 3.0), std::pair(4, 4.0),
                                 std::pair(2, 7.0)));
}

TEST_F(SampleThinnerTest, MergesNeighboursInPairsAndKeepsWhatFollows) {
  for (int second = 1; second <= 5; ++second)
    thinner.add_pair(ranks_at(second, {"0"}, "cpu", {1.0 * second}));
  thinner.add(ranks_at(6, {"0"}, "cpu", {6}), 0);
  thinner.finish();

  EXPECT_THAT(taken, ElementsAre(std::pair(2, 1.5), std::pair(4, 3.5), std::pair(5, 5.0),
                                 std::pair(6, 6.0)));
}

TEST_F(SampleThinnerTest, CoversMoreTimeTheOlderALineIs) {
  EXPECT_EQ(span_at_age(-5), 0);
  EXPECT_EQ(span_at_age(599'999), 0);
  EXPECT_EQ(span_at_age(600'000), 10'000);
  EXPECT_EQ(span_at_age(7'199'999), 10'000);
  EXPECT_EQ(span_at_age(7'200'000), 60'000);
}

}  // namespace
}  // namespace train
