#include "launcher/core/search/trial_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <cmath>
#include <functional>
#include <set>

namespace train {
namespace {

using testing::ElementsAre;

Parameter uniform(const std::string& path, double low, double high, int count = 0) {
  return {.path = path, .kind = ParameterKind::Uniform, .low = low, .high = high, .count = count};
}
Parameter logarithmic(const std::string& path, double low, double high, int count = 0) {
  return {
      .path = path, .kind = ParameterKind::LogUniform, .low = low, .high = high, .count = count};
}
Parameter integers(const std::string& path, std::int64_t least, std::int64_t greatest,
                   int count = 0) {
  return {.path = path,
          .kind = ParameterKind::Int,
          .least = least,
          .greatest = greatest,
          .count = count};
}
Parameter choice(const std::string& path, boost::json::array values) {
  return {.path = path, .kind = ParameterKind::Choice, .values = std::move(values)};
}

SearchSpec random_search(std::vector<Parameter> parameters, int trials = 10'000) {
  return {.metric = "loss", .num_trials = trials, .parameters = std::move(parameters)};
}

/// Return the statistic for the hypothesis that a trial's place among `cells` is uniform.
double chi_square(const SearchSpec& spec, int cells,
                  const std::function<double(const boost::json::value&)>& part) {
  std::vector<int> counts(static_cast<std::size_t>(cells));
  for (int trial = 0; trial < spec.num_trials; ++trial) {
    const double at = part(trial_values(spec, trial).at("x"));
    EXPECT_TRUE(at >= 0 && at <= 1) << at;
    ++counts[std::min(static_cast<std::size_t>(at * cells), static_cast<std::size_t>(cells - 1))];
  }
  const double expected = static_cast<double>(spec.num_trials) / cells;
  double sum = 0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

// The 99.9th percentile of chi-square with 9 degrees of freedom.
constexpr double kTenCells = 27.88;

TEST(TrialValues, UniformValuesAreSpreadEvenly) {
  const double found = chi_square(random_search({uniform("x", -2, 3)}), 10,
                                  [](const auto& value) { return (value.as_double() + 2) / 5; });
  EXPECT_LT(found, kTenCells);
}

TEST(TrialValues, LogarithmsOfLogUniformValuesAreSpreadEvenly) {
  const double found =
      chi_square(random_search({logarithmic("x", 1e-5, 1e-1)}), 10,
                 [](const auto& value) { return (std::log10(value.as_double()) + 5) / 4; });
  EXPECT_LT(found, kTenCells);
}

TEST(TrialValues, EachIntegerAndEachChoiceIsEquallyLikely) {
  EXPECT_LT(chi_square(random_search({integers("x", 1, 10)}), 10,
                       [](const auto& value) {
                         return (static_cast<double>(value.as_int64()) - 0.5) / 10;
                       }),
            kTenCells);
  boost::json::array words;
  for (int i = 0; i < 10; ++i) words.emplace_back(std::to_string(i));
  EXPECT_LT(chi_square(random_search({choice("x", words)}), 10,
                       [](const auto& value) {
                         return (std::stoi(std::string(value.as_string())) + 0.5) / 10;
                       }),
            kTenCells);
}

TEST(TrialValues, AllIntegersOfTheWidestRangeCanBeDrawn) {
  const SearchSpec spec = random_search({integers("x", std::numeric_limits<std::int64_t>::min(),
                                                  std::numeric_limits<std::int64_t>::max())});
  std::set<std::int64_t> drawn;
  int negative = 0;
  for (int trial = 0; trial < 100; ++trial) {
    drawn.insert(trial_values(spec, trial).at("x").as_int64());
    negative += *drawn.begin() < 0 ? 1 : 0;
  }
  EXPECT_EQ(drawn.size(), 100u);
  EXPECT_GT(negative, 0);
}

TEST(TrialValues, AreThoseOfTheSeedAndTheNumberAlone) {
  SearchSpec spec = random_search({uniform("x", 0, 1), uniform("y", 0, 1)}, 5);
  const auto third = trial_values(spec, 3);
  EXPECT_EQ(third, trial_values(spec, 3));
  EXPECT_NE(third.at("x"), third.at("y")) << "parameters are independent";
  spec.num_trials = 50;
  spec.parameters.insert(spec.parameters.begin(), uniform("new", 0, 1));
  EXPECT_EQ(trial_values(spec, 3).at("x"), third.at("x")) << "whatever else is searched";
  spec.seed = 1;
  EXPECT_NE(trial_values(spec, 3).at("x"), third.at("x"));
  // A sweep that an earlier version began has the same trials.
  SearchSpec fixed = random_search({integers("x", 0, 999'999)});
  EXPECT_THAT((std::vector{trial_values(fixed, 0).at("x").as_int64(),
                           trial_values(fixed, 1).at("x").as_int64(),
                           trial_values(fixed, 99'999).at("x").as_int64()}),
              ElementsAre(924'130, 441'763, 474'516));
}

TEST(TrialValues, OfAGridTheLastParameterChangesFastest) {
  SearchSpec spec{.metric = "loss",
                  .search = SearchKind::Grid,
                  .parameters = {choice("a", {"p", "q"}), integers("b", 1, 9, 3)}};
  ASSERT_EQ(trial_count(spec), 6);
  std::vector<std::string> points;
  for (int trial = 0; trial < 6; ++trial)
    points.push_back(boost::json::serialize(trial_values(spec, trial)));
  EXPECT_THAT(points,
              ElementsAre(R"({"a":"p","b":1})", R"({"a":"p","b":5})", R"({"a":"p","b":9})",
                          R"({"a":"q","b":1})", R"({"a":"q","b":5})", R"({"a":"q","b":9})"));
  spec.num_trials = 2;
  EXPECT_EQ(trial_count(spec), 12);
  EXPECT_EQ(trial_values(spec, 7), trial_values(spec, 1));
}

TEST(TrialValues, OfAGridRangesAreEvenlySpacedBothEndsIn) {
  const auto all = [](const Parameter& parameter) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < grid_count(parameter); ++i)
      values.push_back(grid_value(parameter, i).to_number<double>());
    return values;
  };
  EXPECT_THAT(all(uniform("x", 0, 1, 5)), ElementsAre(0, 0.25, 0.5, 0.75, 1));
  EXPECT_THAT(all(uniform("x", 0, 1, 1)), ElementsAre(0.5));
  EXPECT_THAT(all(logarithmic("x", 0.01, 100, 3)),
              ElementsAre(0.01, testing::DoubleNear(1, 1e-12), 100));
  EXPECT_THAT(all(integers("x", 2, 8, 3)), ElementsAre(2, 5, 8));
  EXPECT_THAT(all(integers("x", 0, 5, 4)), ElementsAre(0, 2, 3, 5)) << "1.67 and 3.33, rounded";
  EXPECT_THAT(all(integers("x", 7, 9, 50)), ElementsAre(7, 8, 9)) << "there are no more";
}

TEST(TrialValues, OfALargeGridAreCountedWithoutOverflow) {
  SearchSpec spec{.metric = "loss", .search = SearchKind::Grid, .parameters = {}};
  for (int i = 0; i < 200; ++i)
    spec.parameters.push_back(uniform("x" + std::to_string(i), 0, 1, kTrialsMax));
  EXPECT_EQ(trial_count(spec), kTrialsMax + 1);
}

TEST(TrialValues, PointsComeFirst) {
  SearchSpec spec = random_search({uniform("x", 0, 1), uniform("y", 0, 1)}, 5);
  const auto drawn = trial_values(spec, 0);
  spec.points = {{{"x", 0.25}}};
  EXPECT_EQ(trial_values(spec, 0).at("x"), 0.25);
  EXPECT_EQ(trial_values(spec, 0).at("y"), drawn.at("y")) << "what it leaves out is drawn";
  EXPECT_EQ(trial_count(spec), 5) << "they are among the trials of a random search";

  spec.search = SearchKind::Grid;
  spec.num_trials = 1;
  spec.parameters = {choice("x", {1, 2}), choice("y", {3, 4})};
  spec.points = {{{"x", 2}}};
  ASSERT_EQ(trial_count(spec), 5) << "and come before the grid";
  EXPECT_EQ(boost::json::serialize(trial_values(spec, 0)), R"({"x":2,"y":3})");
  EXPECT_EQ(boost::json::serialize(trial_values(spec, 1)), R"({"x":1,"y":3})");
  EXPECT_EQ(boost::json::serialize(trial_values(spec, 4)), R"({"x":2,"y":4})");
}

}  // namespace
}  // namespace train
