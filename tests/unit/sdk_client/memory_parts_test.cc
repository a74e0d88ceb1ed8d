// The parts of a profile of memory: which allocations are samples, and what is known of them.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <memory>
#include <thread>
#include <vector>

#include "lib/wire/codec.h"
#include "sdk/client/memory/language_profiler.h"
#include "sdk/client/memory/live_samples.h"
#include "sdk/client/memory/memory_profiler.h"
#include "sdk/client/memory/sample_distance.h"
#include "sdk/client/memory/sampled_stacks.h"

namespace train::sdk {
namespace {

constexpr std::uint64_t kMean = 512u << 10;

const void* address(std::uintptr_t number) { return std::bit_cast<const void*>(number); }

/// Return what the samples of so many allocations say that these have, as a part of the truth.
double estimate(std::size_t bytes, std::size_t count) {
  SampleDistance distance{};
  distance.begin(7, kMean);
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (distance.take(bytes, kMean)) sum += static_cast<double>(sample_weight(bytes, kMean));
  return sum / (static_cast<double>(bytes) * static_cast<double>(count));
}

TEST(SampleDistance, SumsOfSamplesAreWhatWasAllocated) {
  EXPECT_NEAR(estimate(64, 64u << 20), 1, 0.05);  // 8,192 samples
  EXPECT_NEAR(estimate(100 << 10, 40'000), 1, 0.05);
  EXPECT_NEAR(estimate(512 << 10, 10'000), 1, 0.05);
  EXPECT_NEAR(estimate(64u << 20, 100), 1, 0.001);  // each is a sample
}

TEST(SampleDistance, ASampleStandsForItsSizeByItsProbability) {
  EXPECT_EQ(sample_weight(0, kMean), sample_weight(1, kMean));
  EXPECT_NEAR(static_cast<double>(sample_weight(1, kMean)), static_cast<double>(kMean), 2);
  EXPECT_EQ(sample_weight(kMean, kMean), 829'411u);  // 1 − 1/e of these are samples
  EXPECT_EQ(sample_weight(1u << 30, kMean), 1u << 30);
  EXPECT_EQ(sample_weight(~std::size_t{0}, kMean), SampleDistance::kBytesMax);
}

TEST(SampleDistance, ThreadsWithOtherSeedsTakeOtherSamples) {
  SampleDistance one{}, other{};
  one.begin(1, kMean);
  other.begin(2, kMean);
  EXPECT_NE(one.bytes_left, other.bytes_left);
}

TEST(LiveSamples, AreThereUntilTheyAreTaken) {
  const auto live = std::make_unique<LiveSamples>();
  EXPECT_TRUE(live->add(address(0x1000), {.bytes = 5, .stack = 2}));
  EXPECT_FALSE(live->take(address(0x1010)));
  const auto taken = live->take(address(0x1000));
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->bytes, 5u);
  EXPECT_EQ(taken->stack, 2u);
  EXPECT_FALSE(live->take(address(0x1000)));
}

TEST(LiveSamples, RefuseWhatHasNoPlaceAndLoseNothingElse) {
  const auto live = std::make_unique<LiveSamples>();
  std::vector<std::uintptr_t> added;
  std::size_t refused = 0;
  for (std::uintptr_t i = 1; i <= 2 * LiveSamples::kBuckets * LiveSamples::kWays; ++i) {
    if (live->add(address(i * 16), {.bytes = i, .stack = 0}))
      added.push_back(i);
    else
      ++refused;
  }
  EXPECT_LE(added.size(), LiveSamples::kBuckets * LiveSamples::kWays);
  EXPECT_GT(added.size(), LiveSamples::kBuckets * LiveSamples::kWays / 2);
  EXPECT_GT(refused, 0u);
  for (const std::uintptr_t i : added) {
    const auto taken = live->take(address(i * 16));
    ASSERT_TRUE(taken);
    EXPECT_EQ(taken->bytes, i);
  }
  EXPECT_TRUE(live->add(address(16), {}));
}

TEST(LiveSamples, ThreadsTakeWhatOthersHaveAdded) {
  const auto live = std::make_unique<LiveSamples>();
  constexpr std::uintptr_t kEach = 2'000, kThreads = 4;
  const auto in_threads = [](const auto& work) {
    std::vector<std::thread> threads;
    for (std::uintptr_t t = 0; t < kThreads; ++t) threads.emplace_back([&work, t] { work(t); });
    for (std::thread& thread : threads) thread.join();
  };
  std::array<std::size_t, kThreads> taken{};
  for (int round = 0; round < 10; ++round) {
    in_threads([&](std::uintptr_t t) {
      for (std::uintptr_t i = 1; i <= kEach; ++i)
        (void)live->add(address((t * kEach + i) * 16), {.bytes = t, .stack = 0});
    });
    in_threads([&](std::uintptr_t t) {
      const std::uintptr_t of = (t + 1) % kThreads;
      for (std::uintptr_t i = 1; i <= kEach; ++i) {
        const auto sample = live->take(address((of * kEach + i) * 16));
        if (sample && sample->bytes == of) ++taken[t];
      }
    });
  }
  for (const std::size_t count : taken) EXPECT_EQ(count, 10 * kEach);
}

TEST(SampledStacks, CountWhatEachHasAllocated) {
  const auto stacks = std::make_unique<SampledStacks>();
  int a = 0, b = 0, c = 0;
  void* const outer[] = {&a, &b};
  void* const inner[] = {&a, &b, &c};
  const std::uint32_t first = stacks->number_of(outer), second = stacks->number_of(inner);
  EXPECT_NE(first, second);
  EXPECT_EQ(stacks->number_of(outer), first);
  stacks->allocated(first, 100);
  stacks->allocated(first, 50);
  stacks->allocated(second, 7);
  stacks->freed(first, 100);

  std::vector<AllocationStack> all = stacks->all();
  ASSERT_EQ(all.size(), 2u);
  if (all[0].addresses.size() == 3) std::swap(all[0], all[1]);
  const auto number = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at); };
  EXPECT_EQ(all[0], (AllocationStack{{number(&a), number(&b)}, 150, 50, 2}));
  EXPECT_EQ(all[1], (AllocationStack{{number(&a), number(&b), number(&c)}, 7, 7, 1}));
}

TEST(SampledStacks, WhatDoesNotFitIsOneStackWithoutAddresses) {
  const auto stacks = std::make_unique<SampledStacks>();
  std::vector<void*> addresses(kAllocationDepthMax + 5);
  constexpr std::uintptr_t kCount = std::uintptr_t{2} * SampledStacks::kStacksMax;
  for (std::uintptr_t i = 1; i <= kCount; ++i) {
    addresses[0] = std::bit_cast<void*>(i);
    stacks->allocated(stacks->number_of(addresses), 1);
  }
  std::uint64_t known = 0, others = 0;
  for (const AllocationStack& stack : stacks->all()) {
    EXPECT_LE(stack.addresses.size(), kAllocationDepthMax);
    (stack.addresses.empty() ? others : known) += stack.allocated;
  }
  EXPECT_EQ(known, SampledStacks::kAddressesMax / kAllocationDepthMax);
  EXPECT_EQ(known + others, kCount);
}

TEST(MemoryProfiler, AnAnswerGoesInPiecesThatFitIntoAFrame) {
  std::vector<AllocationStack> stacks(
      5000, {.addresses = std::vector<std::uint64_t>(kAllocationDepthMax, ~std::uint64_t{0}),
             .allocated = 1});
  const auto pieces = answer_in_pieces(7, {.stacks = stacks, .facts = {.sample_bytes = 3}});
  std::size_t count = 0;
  for (const AllocationStacks& piece : pieces) {
    EXPECT_EQ(piece.request, 7u);
    EXPECT_EQ(piece.last, &piece == &pieces.back());
    EXPECT_LT(encode(piece).payload.size(), 1u << 20);
    count += piece.stacks.size();
  }
  EXPECT_EQ(count, stacks.size());
  EXPECT_EQ(pieces.back().facts.sample_bytes, 3u);
  ASSERT_EQ(answer_in_pieces(1, {}).size(), 1u);
  EXPECT_TRUE(answer_in_pieces(1, {})[0].last);
}

TEST(MemoryProfiler, NamesGoBeforeTheStacksThatUseThem) {
  const std::vector<std::string> names(5000, std::string(NamedStacks::kNameBytesMax, 'n'));
  const auto pieces = answer_in_pieces(
      7, {.stacks = {{.addresses = {0}}}, .engine = "memray", .names = names, .note = "why"});
  std::size_t count = 0;
  for (const AllocationStacks& piece : pieces) {
    EXPECT_EQ(piece.engine, "memray");
    EXPECT_LT(encode(piece).payload.size(), 1u << 20);
    EXPECT_TRUE(piece.names.empty() || piece.stacks.empty());
    count += piece.names.size();
  }
  EXPECT_EQ(count, names.size());
  EXPECT_EQ(pieces.back().stacks.size(), 1u);
  EXPECT_EQ(pieces.back().note, "why");
}

TEST(NamedStacks, FramesAreLinesAndNamesAreKeptOnce) {
  NamedStacks stacks;
  stacks.add("inner\nouter", 10, 4, 2);
  stacks.add("outer", 3, 3, 1);
  stacks.add("", 1, 0, 1);
  EXPECT_EQ(stacks.names(), (std::vector<std::string>{"inner", "outer"}));
  EXPECT_EQ(stacks.take(), (std::vector<AllocationStack>{
                               {.addresses = {0, 1}, .allocated = 10, .live = 4, .samples = 2},
                               {.addresses = {1}, .allocated = 3, .live = 3, .samples = 1},
                               {.allocated = 1, .samples = 1}}));
}

TEST(NamedStacks, AreBoundedAndLoseNoBytes) {
  NamedStacks stacks;
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "f\n";
  stacks.add(deep, 1, 0, 1);
  constexpr std::size_t kCount = 2 * NamedStacks::kStacksMax;
  for (std::size_t i = 0; i < kCount; ++i)
    stacks.add(std::to_string(i) + std::string(2 * NamedStacks::kNameBytesMax, 'x'), 1, 1, 1);
  const std::vector<AllocationStack> all = stacks.take();
  EXPECT_EQ(all.front().addresses.size(), kAllocationDepthMax);
  EXPECT_LE(all.size(), NamedStacks::kStacksMax + 1);
  std::size_t names = 0;
  std::uint64_t allocated = 0;
  for (const std::string& name : stacks.names()) names += name.size();
  for (const AllocationStack& stack : all) allocated += stack.allocated;
  EXPECT_LE(names, NamedStacks::kNamesBytesMax + 100);
  EXPECT_EQ(allocated, kCount + 1);
  EXPECT_EQ(stacks.names().at(all.back().addresses.at(0)), "[other stacks]");
}

// The supervisor takes 65,536 names and 2 Mi addresses, and drops a worker that sends more.
TEST(NamedStacks, HaveNoMoreNamesAndAddressesThanASupervisorTakes) {
  NamedStacks stacks;
  for (std::size_t i = 0; i < 600; ++i) {
    std::string frames;
    for (std::size_t at = 0; at < kAllocationDepthMax; ++at)
      frames += std::to_string(i * kAllocationDepthMax + at) + "\n";
    stacks.add(frames, 1, 0, 1);
  }
  EXPECT_LE(stacks.names().size(), 65536u);
  std::string deep;
  for (std::size_t i = 0; i < kAllocationDepthMax; ++i) deep += "f\n";
  for (std::size_t i = 0; i < 2 * NamedStacks::kStacksMax; ++i) stacks.add(deep, 1, 0, 1);

  std::size_t addresses = 0;
  std::uint64_t allocated = 0;
  for (const AllocationStack& stack : stacks.take()) {
    addresses += stack.addresses.size();
    allocated += stack.allocated;
  }
  EXPECT_LE(addresses, std::size_t{2} << 20);
  EXPECT_EQ(allocated, 600 + 2 * NamedStacks::kStacksMax);
}

}  // namespace
}  // namespace train::sdk
