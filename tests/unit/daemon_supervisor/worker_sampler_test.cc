// What a supervisor says of its workers: of real pages, and of this process as their program.
#include "daemon/supervisor/workers/worker_sampler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/progress/dataset_meters.h"
#include "lib/progress/progress_clock.h"
#include "lib/progress/progress_writer.h"

namespace train {
namespace {

constexpr pid_t kNoProcess = 1 << 30;  // more than Linux allows

/// A worker whose process is this one, and whose page shows that two steps have ended.
WorkerSlot worker_of(std::int32_t rank) {
  WorkerSlot slot;
  slot.ranks.rank = rank;
  slot.pid = slot.program = ::getpid();
  slot.progress.emplace(*ProgressMemory::make());
  ProgressWriter writer(slot.progress->page(), progress_now());
  writer.end_step(StepSource::Program, progress_now());
  writer.end_step(StepSource::Program, progress_now());
  return slot;
}

RankSample sample_of(std::uint64_t signs, std::int64_t quiet_us, std::int64_t cpu_wait_us) {
  RankSample sample{.rank = Rank{0}};
  sample.progress.signs = signs;
  sample.progress.quiet_us = quiet_us;
  sample.process.cpu_wait_us = cpu_wait_us;
  return sample;
}

TEST(WorkerSampler, ReadsThePageAndTheProcessOfEachWorkerThatWasStarted) {
  std::map<Rank, WorkerSlot> slots;
  slots.emplace(Rank{3}, worker_of(3));
  slots.emplace(Rank{4}, WorkerSlot{});  // not started yet
  const auto messages = WorkerSampler(slots).take();
  ASSERT_EQ(messages.size(), 1u);
  ASSERT_EQ(messages[0].ranks.size(), 1u);
  const RankSample& sample = messages[0].ranks[0];
  EXPECT_EQ(sample.rank, Rank{3});
  EXPECT_EQ(sample.progress.steps, 2u);
  EXPECT_EQ(sample.process.pid, ::getpid());
}

TEST(WorkerSampler, SaysNothingOfThePageOfAProgramThatHasEnded) {
  std::map<Rank, WorkerSlot> slots;
  slots.emplace(Rank{0}, worker_of(0)).first->second.program = kNoProcess;
  EXPECT_EQ(WorkerSampler(slots).take().at(0).ranks.at(0).progress, WorkerProgress{});
  slots.at(Rank{0}).connected = true;  // not a descendant of the worker's process, but it lives
  EXPECT_EQ(WorkerSampler(slots).take().at(0).ranks.at(0).progress.steps, 2u);
}

TEST(WorkerSampler, ReadsWhatTheDatasetsOfConnectedWorkersDo) {
  std::map<Rank, WorkerSlot> slots;
  for (const int rank : {0, 1, 2}) slots.emplace(Rank{rank}, worker_of(rank));
  for (const int rank : {0, 1}) {
    DatasetMeters meters(slots.at(Rank{rank}).progress->data(), "train", false, {"crop"});
    meters.map(0).passed(7, 8);
  }
  slots.at(Rank{1}).connected = slots.at(Rank{2}).connected = true;
  WorkerSampler sampler(slots);

  const auto messages = sampler.take_data();

  ASSERT_EQ(messages.size(), 1u);
  ASSERT_EQ(messages[0].ranks.size(), 1u);  // of 0 there is only the page; 2 reads no dataset
  EXPECT_EQ(messages[0].ranks[0].rank, Rank{1});
  const auto& operators = messages[0].ranks[0].operators;
  ASSERT_EQ(operators.size(), 6u);
  EXPECT_EQ(operators[3].name(), "map crop");
  EXPECT_EQ(operators[3].rows, 7);
  EXPECT_GT(messages[0].taken_us, 0);
}

TEST(WorkerSampler, TellsOfDatasetsInBoundedMessagesAndOfManyRanksRarely) {
  std::map<Rank, WorkerSlot> slots;
  constexpr int kWorkers = 100;
  for (int rank = 0; rank < kWorkers; ++rank) {
    WorkerSlot& slot = slots.emplace(Rank{rank}, worker_of(rank)).first->second;
    slot.connected = true;
    slot.ranks.world_size = kDataEachSecondMax + 1;
    const DatasetMeters meters(slot.progress->data(), "train", false,
                               std::vector<std::string>(100, "map"));
  }
  WorkerSampler sampler(slots);
  for (int second = 1; second < kDataRarelySeconds; ++second)
    EXPECT_TRUE(sampler.take_data().empty());
  const auto messages = sampler.take_data();
  std::size_t ranks = 0;
  for (const DataSamples& message : messages) {
    ranks += message.ranks.size();
    std::size_t operators = 0;
    for (const RankData& rank : message.ranks) operators += rank.operators.size();
    EXPECT_LE(operators, kOperatorsPerSampleMax);
  }
  EXPECT_EQ(ranks, std::size_t{kWorkers});
  EXPECT_GT(messages.size(), 1u);
}

TEST(WorkerSampler, SpreadsManyWorkersOverSeveralMessages) {
  std::map<Rank, WorkerSlot> slots;
  for (std::int32_t rank = 0; rank <= static_cast<std::int32_t>(kRanksPerSampleMax); ++rank) {
    WorkerSlot& slot = slots[Rank{rank}];
    slot.ranks.rank = rank;
    slot.pid = kNoProcess;
  }
  const auto messages = WorkerSampler(slots).take();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].ranks.size(), kRanksPerSampleMax);
  EXPECT_EQ(messages[1].ranks.size(), 1u);
}

TEST(CpuWait, IsNotSilence) {
  SignOfLife newest;
  RankSample sample = sample_of(7, 1'000, 50'000);
  subtract_cpu_wait(sample, newest);
  EXPECT_EQ(sample.progress.quiet_us, 1'000);  // it waited before this sign

  sample = sample_of(7, 101'000, 90'000);
  subtract_cpu_wait(sample, newest);
  EXPECT_EQ(sample.progress.quiet_us, 61'000);

  sample = sample_of(7, 201'000, 90'000);  // since the sign, not since the last sample
  subtract_cpu_wait(sample, newest);
  EXPECT_EQ(sample.progress.quiet_us, 161'000);

  sample = sample_of(8, 2'000, 95'000);
  subtract_cpu_wait(sample, newest);
  EXPECT_EQ(sample.progress.quiet_us, 2'000);
}

TEST(CpuWait, NeitherLengthensASilenceNorMakesItNegative) {
  SignOfLife newest{7, 50'000};
  RankSample sample = sample_of(7, 1'000, 10);  // another process, which has waited less
  subtract_cpu_wait(sample, newest);
  EXPECT_EQ(sample.progress.quiet_us, 1'000);
  sample = sample_of(7, 1'000, 90'000);
  subtract_cpu_wait(sample, newest);
  EXPECT_EQ(sample.progress.quiet_us, 0);
}

}  // namespace
}  // namespace train
