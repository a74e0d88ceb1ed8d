// What people and programs read of how the time of a run's workers was used.
#include "launcher/report/goodput_text.h"

#include <gtest/gtest.h>

#include <map>

#include "lib/base/json_text.h"

namespace train {
namespace {

TimeAccounts of(std::map<TimeUse, int> times) {
  TimeAccounts accounts;
  for (const auto& [use, time] : times) accounts[use] = seconds(time);
  return accounts;
}

TEST(GoodputText, NamesTheLargerAccountsTheLargestFirst) {
  EXPECT_EQ(goodput_text(of({{TimeUse::Step, 870},
                             {TimeUse::Checkpoint, 30},
                             {TimeUse::Data, 60},
                             {TimeUse::Lost, 20},
                             {TimeUse::Down, 19},
                             {TimeUse::Other, 1}})),
            "87 % (data 6, checkpoint 3, lost 2, down 2)");
  EXPECT_EQ(goodput_text(of({{TimeUse::Step, 999}, {TimeUse::Data, 1}})), "100 %");
}

TEST(GoodputText, HasAtMostFiveAccounts) {
  EXPECT_EQ(goodput_text(of({{TimeUse::Step, 40},
                             {TimeUse::Start, 15},
                             {TimeUse::Restore, 14},
                             {TimeUse::Data, 13},
                             {TimeUse::Collective, 12},
                             {TimeUse::Checkpoint, 11},
                             {TimeUse::Validate, 10}})),
            "35 % (start 13, restore 12, data 11, collective 10, checkpoint 10)");
}

TEST(GoodputText, IsEmptyIfNothingIsKnown) {
  EXPECT_EQ(goodput_text({}), "");
  EXPECT_EQ(goodput_text(of({{TimeUse::Start, 1}, {TimeUse::Unknown, 90}, {TimeUse::Down, 9}})),
            "");
  EXPECT_EQ(goodput_text(of({{TimeUse::Start, 5}})), "0 % (start 100)");  // it ended there
  EXPECT_EQ(goodput_text(of({{TimeUse::Step, 50}, {TimeUse::Unknown, 50}})), "50 % (unknown 50)");
}

TEST(GoodputAdvice, IsAboutTheLargestAccountWithARemedy) {
  EXPECT_EQ(
      goodput_advice(of({{TimeUse::Step, 60},
                         {TimeUse::Collective, 20},
                         {TimeUse::Data, 12},
                         {TimeUse::Checkpoint, 8}})),
      "data takes 12 % of the time: prepare more batches ahead (prefetch_batches), or do less "
      "work for each");
  EXPECT_EQ(goodput_advice(of({{TimeUse::Step, 90}, {TimeUse::Lost, 10}})),
            "lost takes 10 % of the time: make checkpoints more often");
  EXPECT_EQ(
      goodput_advice(of({{TimeUse::Step, 60}, {TimeUse::Down, 40}})),
      "down takes 40 % of the time: keep processes ready (scaling_config.standby_workers), or "
      "let the group go on with fewer workers (num_workers: {min, max})");
  EXPECT_EQ(goodput_advice(of({{TimeUse::Step, 95}, {TimeUse::Data, 5}})), "");
  EXPECT_EQ(goodput_advice(of({{TimeUse::Unknown, 60}, {TimeUse::Down, 40}})), "");
  EXPECT_EQ(goodput_advice(of({{TimeUse::Step, 60}, {TimeUse::Start, 40}})), "");
  EXPECT_EQ(goodput_advice(of({{TimeUse::Step, 1}, {TimeUse::Down, 9}})), "") << "it was short";
}

TEST(GoodputJson, HasTheRatioAndTheSecondsOfEachUse) {
  JsonWriter json;
  json.object();
  put_goodput(json, of({{TimeUse::Step, 3}, {TimeUse::Data, 1}}));
  EXPECT_EQ(std::move(json.end()).take(),
            R"({"goodput":{"ratio":0.75,"worker_seconds":{"step":3.0,"data":1.0}}})");
  JsonWriter none;
  none.object();
  put_goodput(none, {});
  EXPECT_EQ(std::move(none.end()).take(), R"({"goodput":null})");
}

TEST(GoodputJson, OfAnAttemptHasTheRunToo) {
  EXPECT_EQ(goodput_json(2, 4, of({{TimeUse::Step, 3}}), of({{TimeUse::Step, 5}}), {}),
            R"({"attempt":2,"world_size":4,"t":"1970-01-01T00:00:00.000000Z",)"
            R"("worker_seconds":{"step":3.0},"run":{"worker_seconds":{"step":5.0}}})"
            "\n");
}

}  // namespace
}  // namespace train
