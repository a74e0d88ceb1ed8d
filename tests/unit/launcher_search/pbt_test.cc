#include "launcher/core/search/pbt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace train {
namespace {

SearchSpec spec_of(PbtSpec pbt = {.interval = 10}, SearchMode mode = SearchMode::Min) {
  return {.metric = "loss",
          .mode = mode,
          .num_trials = 8,
          .parameters = {{.path = "lr", .kind = ParameterKind::LogUniform, .low = 0.001, .high = 1},
                         {.path = "layers", .kind = ParameterKind::Int, .least = 1, .greatest = 20},
                         {.path = "kind",
                          .kind = ParameterKind::Choice,
                          .values = {"a", "b", "c", "d"}},
                         {.path = "depth", .values = {3}}},
          .scheduler = std::move(pbt)};
}

PbtCheckpoint scored(double time, double value, const std::string& name = "c") {
  return {.time = time, .value = value, .checkpoint = name};
}

/// Let trials 0, 1, … come to time 10 with these values; return the donor of the last one.
std::optional<int> donor_of_last(Pbt& pbt, const std::vector<double>& values) {
  std::optional<int> donor;
  for (std::size_t i = 0; i < values.size(); ++i)
    donor = pbt.checkpointed(static_cast<int>(i), 1, scored(10, values[i]));
  return donor;
}

TEST(Pbt, TrialsAreComparedEachInterval) {
  Pbt pbt(spec_of({.interval = 10, .burn_in = 15}));
  EXPECT_FALSE(pbt.is_due(0, 9));
  EXPECT_FALSE(pbt.is_due(0, 14));
  EXPECT_TRUE(pbt.is_due(0, 15));
  pbt.checkpointed(0, 1, scored(17, 1));
  EXPECT_FALSE(pbt.is_due(0, 26));
  EXPECT_TRUE(pbt.is_due(0, 27));
  EXPECT_TRUE(pbt.is_due(1, 15)) << "each trial by itself";
  pbt.exploited(0, 40);
  EXPECT_FALSE(pbt.is_due(0, 49)) << "counted from the checkpoint that it took over";
  EXPECT_TRUE(pbt.is_due(0, 50));
}

TEST(Pbt, TheWorstQuarterTakesOverFromTheBestQuarter) {
  // As many as Tune takes: ceil(n / 4), and no more than half of them.
  const std::map<int, int> shares{{1, 0}, {2, 1}, {3, 1}, {4, 1}, {5, 2}, {8, 2}, {9, 3}};
  for (const auto& [all, some] : shares)
    for (int place = 0; place < all; ++place) {  // of the last one among them, the best first
      SCOPED_TRACE(testing::Message() << all << " trials, place " << place);
      std::vector<double> values;
      for (int i = 0; i < all; ++i)
        if (i != place) values.push_back(i);
      values.push_back(place);
      Pbt pbt(spec_of());
      const auto donor = donor_of_last(pbt, values);
      EXPECT_EQ(donor.has_value(), place >= all - some);
      if (donor) EXPECT_LT(values[static_cast<std::size_t>(*donor)], some);
    }
}

TEST(Pbt, WhatIsBetterIsAsTheModeSays) {
  Pbt max(spec_of({.interval = 10}, SearchMode::Max));
  EXPECT_EQ(donor_of_last(max, {1, 5, 2, 0}), 1);
  Pbt min(spec_of());
  EXPECT_EQ(donor_of_last(min, {1, 5, 2, 0}), std::nullopt) << "it is the best";
}

TEST(Pbt, NotANumberIsTheWorstAndNobodyTakesItOver) {
  Pbt pbt(spec_of());
  EXPECT_EQ(donor_of_last(pbt, {1, 2, 3, std::nan("")}), 0);
  Pbt none(spec_of());
  EXPECT_EQ(donor_of_last(none, {std::nan(""), std::nan("")}), std::nullopt);
}

TEST(Pbt, TrialsThatHaveEndedOrTakenOverAreNotCompared) {
  Pbt pbt(spec_of());
  pbt.checkpointed(0, 1, scored(10, 1, "best"));
  pbt.checkpointed(1, 1, scored(10, 2, "second"));
  pbt.ended(0);
  EXPECT_FALSE(pbt.newest(0));
  EXPECT_EQ(pbt.checkpointed(2, 1, scored(10, 3)), 1);
  pbt.exploited(2, 10);
  EXPECT_FALSE(pbt.newest(2));
  EXPECT_EQ(pbt.newest(1)->checkpoint, "second");
  EXPECT_FALSE(pbt.newest(7));
}

TEST(Pbt, DonorsAreDrawnFromAllOfTheBest) {
  std::set<int> donors;
  for (int part = 1; part <= 64; ++part) {
    Pbt pbt(spec_of());
    for (int trial = 0; trial < 8; ++trial) {
      const auto donor = pbt.checkpointed(trial, part, scored(10, trial));
      if (trial == 7) donors.insert(donor.value());
    }
  }
  EXPECT_EQ(donors, (std::set{0, 1}));
}

TEST(Pbt, ValuesAreDrawnAnewOrChangedALittle) {
  const Pbt pbt(spec_of());
  const boost::json::object given{{"lr", 0.1}, {"layers", 10}, {"kind", "b"}, {"depth", 3}};
  int up = 0, down = 0, anew = 0;
  std::map<std::string, int> kinds;
  for (int trial = 0; trial < 2000; ++trial) {
    const boost::json::object values = pbt.explored(given, trial, 2);
    EXPECT_EQ(values.at("depth"), 3) << "it never changes";
    const double lr = values.at("lr").as_double();
    EXPECT_TRUE(lr >= 0.001 && lr <= 1) << lr;
    const auto is = [&](double other) { return std::abs(lr / other - 1) < 1e-9; };
    is(0.12) ? ++up : is(0.08) ? ++down : ++anew;
    const std::int64_t layers = values.at("layers").as_int64();
    EXPECT_TRUE(layers >= 1 && layers <= 20) << layers;
    ++kinds[std::string(values.at("kind").as_string())];
  }
  EXPECT_NEAR(anew, 500, 100);
  EXPECT_NEAR(up, 750, 120);
  EXPECT_NEAR(down, 750, 120);
  EXPECT_NEAR(kinds["a"], 875, 120) << "a neighbour, or drawn";
  EXPECT_NEAR(kinds["c"], 875, 120);
  EXPECT_NEAR(kinds["d"], 125, 60) << "drawn alone";
  EXPECT_EQ(pbt.explored(given, 3, 2), pbt.explored(given, 3, 2));
  EXPECT_NE(pbt.explored(given, 3, 2), pbt.explored(given, 3, 3));
}

TEST(Pbt, ValuesStayWithinTheirRanges) {
  const Pbt pbt(spec_of({.interval = 10, .resample = 0}));
  for (int trial = 0; trial < 100; ++trial) {
    const auto high =
        pbt.explored({{"lr", 1.0}, {"layers", 20}, {"kind", "d"}, {"depth", 3}}, trial, 2);
    EXPECT_TRUE(high.at("lr") == 1.0 || high.at("lr") == 0.8) << high;
    EXPECT_TRUE(high.at("layers") == 20 || high.at("layers") == 16) << high;
    EXPECT_TRUE(high.at("kind") == "d" || high.at("kind") == "c") << high;
    const auto low =
        pbt.explored({{"lr", 0.001}, {"layers", 1}, {"kind", "a"}, {"depth", 3}}, trial, 2);
    EXPECT_GE(low.at("lr").as_double(), 0.001);
    EXPECT_EQ(low.at("layers"), 1);
    EXPECT_TRUE(low.at("kind") == "a" || low.at("kind") == "b") << low;
  }
}

TEST(Pbt, OnlyTheNamedParametersChange) {
  const Pbt pbt(spec_of({.interval = 10, .mutate = {"lr"}}));
  const boost::json::object given{{"lr", 0.1}, {"layers", 10}, {"kind", "b"}, {"depth", 3}};
  for (int trial = 0; trial < 50; ++trial) {
    const auto values = pbt.explored(given, trial, 2);
    EXPECT_NE(values.at("lr"), 0.1);
    EXPECT_EQ(values.at("layers"), 10);
    EXPECT_EQ(values.at("kind"), "b");
  }
}

}  // namespace
}  // namespace train
