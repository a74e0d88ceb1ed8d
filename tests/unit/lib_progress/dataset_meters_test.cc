// What a worker's data plane counts, the supervisor reads.
#include "lib/progress/dataset_meters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "lib/progress/data_reader.h"

namespace train {
namespace {

using testing::ElementsAre;

constexpr std::uint64_t kMs = 1'000'000;

std::vector<std::string> names_of(const std::vector<DataOperator>& operators) {
  std::vector<std::string> names;
  for (const DataOperator& one : operators) names.push_back(one.dataset + "/" + one.name());
  return names;
}

const DataOperator& find(const std::vector<DataOperator>& operators, const std::string& name) {
  for (const DataOperator& one : operators)
    if (one.name() == name) return one;
  ADD_FAILURE() << name;
  return operators.front();
}

TEST(DatasetMeters, ShowTheOperatorsOfEachDatasetInTheOrderOfARowsWay) {
  DataPage page;
  const DatasetMeters train(page, "train", true, {"crop", "cast", "crop"});
  const DatasetMeters val(page, "val", false, {});

  EXPECT_THAT(
      names_of(read_data(page, 0)),
      ElementsAre("train/index", "train/decode", "train/filter", "train/gather", "train/map crop",
                  "train/map cast", "train/map crop (2)", "train/batch", "train/loop", "val/index",
                  "val/decode", "val/gather", "val/batch", "val/loop"));
  EXPECT_EQ(names_of(train.read(0)).size(), 9u);
}

TEST(DatasetMeters, CountRowsAndTimesAlsoOfWhatHasNotEnded) {
  DataPage page;
  DatasetMeters meters(page, "train", false, {});
  meters.decode().begin_work(100 * kMs);
  meters.decode().end_work(130 * kMs);
  meters.decode().passed(10, 80);
  meters.decode().passed(5, 40);
  meters.decode().begin_work(200 * kMs);
  meters.loop().begin_wait(150 * kMs);
  meters.batch().set_queue(4096);

  const auto read = read_data(page, 250 * kMs);

  const DataOperator& decode = find(read, "decode");
  EXPECT_EQ(decode.rows, 15);
  EXPECT_EQ(decode.bytes, 120);
  EXPECT_EQ(decode.busy_us, 80'000);
  EXPECT_EQ(find(read, "loop").input_us, 100'000);
  EXPECT_EQ(find(read, "batch").queue_bytes, 4096);
}

// One thread does one of them at a time.
TEST(DatasetMeters, AnOperatorWaitsWhileAnotherOfItsThreadIsAtWork) {
  DataPage page;
  DatasetMeters meters(page, "train", false, {"slow"});
  DatasetMeters other(page, "val", false, {});
  const auto work = [](DataMeter& meter, std::uint64_t ms) {
    meter.begin_work(1);
    meter.end_work(1 + ms * kMs);
  };
  work(meters.index(), 1000);
  work(meters.decode(), 20);
  work(meters.gather(), 3);
  work(meters.map(0), 400);
  meters.batch().begin_wait(1);
  meters.batch().end_wait(1 + 50 * kMs);
  work(other.decode(), 7000);

  const auto read = meters.read(0);

  const auto waits = [&](const std::string& name) {
    const DataOperator& one = find(read, name);
    return std::vector<std::int64_t>{one.input_us / 1000, one.busy_us / 1000, one.room_us / 1000};
  };
  EXPECT_THAT(waits("index"), ElementsAre(0, 1000, 0));
  EXPECT_THAT(waits("decode"), ElementsAre(0, 20, 453));
  EXPECT_THAT(waits("gather"), ElementsAre(20, 3, 450));
  EXPECT_THAT(waits("map slow"), ElementsAre(23, 400, 50));
  EXPECT_THAT(waits("batch"), ElementsAre(423, 0, 50));
}

TEST(DatasetMeters, OnlyTheInnermostOperatorIsAtWork) {
  DataPage page;
  DatasetMeters meters(page, "train", false, {});
  const auto at_work = [&] {
    return std::vector<bool>{meters.decode().slot().working_since.load() != 0,
                             meters.gather().slot().working_since.load() != 0};
  };
  {
    const DatasetMeters::Working gather(&meters, &meters.gather());
    EXPECT_THAT(at_work(), ElementsAre(false, true));
    {
      const DatasetMeters::Working decode(&meters, &meters.decode());
      EXPECT_THAT(at_work(), ElementsAre(true, false));
    }
    EXPECT_THAT(at_work(), ElementsAre(false, true));
  }
  EXPECT_THAT(at_work(), ElementsAre(false, false));
  const DatasetMeters::Working nothing(nullptr, &DatasetMeters::decode);
}

TEST(DatasetMeters, CountPrivatelyWhatThePageHasNoRoomFor) {
  DataPage page;
  const DatasetMeters most(page, "train", false, std::vector<std::string>(58, "map"));
  DatasetMeters rest(page, "val", false, {});
  rest.loop().passed(7, 8);

  EXPECT_EQ(read_data(page, 0).size(), kDataOperatorsMax);
  EXPECT_EQ(find(rest.read(0), "loop").rows, 7);
}

TEST(DatasetMeters, CutLongNamesSoThatTheyStayDifferent) {
  DataPage page;
  const std::string name(128, 'n');
  const DatasetMeters meters(page, name, false, {name, name});
  const auto read = read_data(page, 0);
  EXPECT_EQ(read[3].dataset, std::string(64, 'n'));
  EXPECT_EQ(read[3].map, std::string(64, 'n'));
  EXPECT_EQ(read[4].map, std::string(60, 'n') + " (2)");
}

// A worker may write anything there.
TEST(DataPage, WhateverItContainsIsBroughtIntoItsRange) {
  std::mt19937_64 random(1);
  DataPage page;
  for (int round = 0; round < 200; ++round) {
    page.used.store(round % 2 == 0 ? random() : kDataOperatorsMax);
    for (OperatorSlot& slot : page.slots) {
      for (OperatorSlot::Number* number :
           {&slot.kind, &slot.rows, &slot.bytes, &slot.busy, &slot.waited, &slot.working_since,
            &slot.waiting_since, &slot.queue_bytes, &slot.dataset.size, &slot.map.size})
        number->store(random() % 3 == 0 ? std::numeric_limits<std::uint64_t>::max() : random());
      for (auto& byte : slot.dataset.bytes) byte.store(static_cast<char>(random() % 3 + 'a'));
      for (auto& byte : slot.map.bytes) byte.store(static_cast<char>(random()));
    }
    const auto read = read_data(page, random());
    ASSERT_LE(read.size(), kDataOperatorsMax);
    for (const DataOperator& one : read) {
      EXPECT_LT(static_cast<std::size_t>(one.kind), kOperatorKinds.size());
      for (const std::int64_t number :
           {one.rows, one.bytes, one.busy_us, one.input_us, one.room_us, one.queue_bytes})
        EXPECT_GE(number, 0);
      EXPECT_LE(one.dataset.size(), kDataNameBytesMax);
      EXPECT_EQ(one.map.find('\x1b'), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace train
