// What the ranks' operators answer, and the metrics that a driver gets of it.
#include "sdk/trainer/pass_metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sdk/trainer/worker_calls.h"

namespace train::trainer {
namespace {

Dict rank(std::int64_t samples, double loss) {
  return {{"num_samples", samples}, {"train_loss", loss}, {"epoch", 3}, {"batch_count", 2}};
}

TEST(PassMetrics, AreMeansWeightedByTheSamplesOfEachRank) {
  const Dict reduced = reduced_metrics({rank(30, 1.0), rank(10, 5.0)});
  EXPECT_EQ(reduced.at("train_loss").as<double>(), 2.0);
  EXPECT_EQ(reduced.at("num_samples"), Value(40));
  EXPECT_EQ(reduced.at("epoch"), Value(3));
  EXPECT_EQ(reduced.at("batch_count"), Value(2));
}

TEST(PassMetrics, ARankWithoutSamplesCountsNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(reduced_metrics({rank(10, 5.0), rank(0, nan)}).at("train_loss").as<double>(), 5.0);
  EXPECT_EQ(reduced_metrics({{{"loss", 1}}, {{"loss", 2}}}).at("loss").as<double>(), 1.5);
}

TEST(PassMetrics, NanIsNotHidden) {
  Dict diverged = rank(10, 1.0);
  diverged["train_loss"] = Value();  // as JSON has it
  EXPECT_TRUE(std::isnan(reduced_metrics({rank(10, 1), diverged}).at("train_loss").as<double>()));
  EXPECT_TRUE(std::isnan(reduced_metrics({diverged, rank(10, 1)}).at("train_loss").as<double>()));
}

TEST(PassMetrics, WhatIsNoNumberIsThatOfRank0) {
  const Dict reduced = reduced_metrics({{{"best", "a"}, {"done", true}}, {{"best", "b"}}});
  EXPECT_EQ(reduced.at("best"), Value("a"));
  EXPECT_EQ(reduced.at("done"), Value(true));
}

TEST(PassMetrics, TheWorstCountsDoNoHarm) {
  const auto samples = [](const Value& value) {
    return reduced_metrics({{{"num_samples", value}}, {{"num_samples", value}}}).at("num_samples");
  };
  EXPECT_EQ(samples(std::numeric_limits<std::int64_t>::max()), Value(9'000'000'000'000'000'000));
  EXPECT_EQ(samples(-1), Value(0));
  EXPECT_EQ(samples(Value()), Value(0));
}

TEST(PassMetrics, ARefusalIsAFailure) {
  const Value refusal = Dict{{"refused", "no data"}, {"kind", "invalid_argument"}};
  try {
    pass_metrics("train", {{0, Dict{{"metrics", rank(1, 1)}}}, {1, refusal}});
    FAIL();
  } catch (const Failure& why) {
    EXPECT_EQ(why.kind(), "invalid_argument");
    EXPECT_STREQ(why.what(), "train: no data");
  }
}

TEST(PassMetrics, APassThatHadBeenDoneIsThatOfAllRanks) {
  const Value again = Dict{{"again", List{rank(1, 7), rank(2, 8)}}};
  const auto ranks = pass_metrics("train", {{0, again}, {1, again}});
  ASSERT_EQ(ranks.size(), 2u);
  EXPECT_EQ(ranks[1], rank(2, 8));
}

TEST(PassMetrics, AnAnswerOfAnotherFunctionIsNotTakenForOne) {
  for (const Value& answer : {Value(), Value(1), Value(Dict{{"metrics", 1}}), Value(Dict{}),
                              Value(Dict{{"again", List{Value(1)}}})})
    EXPECT_THROW(pass_metrics("train", {{0, answer}}), Failure);
  EXPECT_THROW(pass_metrics("train", {}), Failure);
}

TEST(CallAnswers, TheRankThatThrewFirstIsNamed) {
  const auto answer = [](int rank, const char* text, const char* kind) {
    return Dict{{"event", "answer"}, {"id", 1}, {"rank", rank}, {"error", text}, {"kind", kind}};
  };
  CallAnswers answers(1);
  answers.take(answer(0, "the other is gone", "thrown"));
  answers.take(answer(1, "a mistake", "thrown"));
  answers.take(answer(2, "it has ended", "lost"));
  answers.take({{"event", "called"}, {"id", 1}, {"first_thrown", 1}});
  EXPECT_TRUE(answers.has_lost());
  EXPECT_TRUE(answers.has_thrown(1));
  EXPECT_FALSE(answers.has_thrown(2));
  try {
    std::move(answers).results("train", true);
    FAIL();
  } catch (const CallFailed& why) {
    EXPECT_STREQ(why.what(), "call of train: rank 1: a mistake (and 2 more ranks)");
  }
}

}  // namespace
}  // namespace train::trainer
