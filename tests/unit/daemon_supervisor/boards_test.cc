#include <gtest/gtest.h>

#include "daemon/supervisor/workers/answered_collectives.h"
#include "daemon/supervisor/workers/once_per_node.h"

namespace train {
namespace {

AnsweredCollectives::SharedResult result(std::uint64_t sequence, std::size_t bytes = 1) {
  return std::make_shared<const CollectiveResult>(
      CollectiveResult{.sequence = sequence, .parts = {std::string(bytes, 'x')}, .error = ""});
}
std::vector<std::uint64_t> sequences(const AnsweredCollectives& answered,
                                     std::uint64_t generation) {
  std::vector<std::uint64_t> all;
  for (const auto& kept : answered.from_before(generation)) all.push_back(kept->sequence);
  return all;
}

TEST(AnsweredCollectives, KeepsTheNewestOfOlderLaunchers) {
  AnsweredCollectives answered;
  for (std::uint64_t sequence = 1; sequence <= AnsweredCollectives::kCountMax + 2; ++sequence)
    answered.add(1, result(sequence));

  EXPECT_EQ(sequences(answered, 1), (std::vector<std::uint64_t>{}));
  ASSERT_EQ(sequences(answered, 2).size(), AnsweredCollectives::kCountMax);
  EXPECT_EQ(sequences(answered, 2).front(), 3u);
  answered.add(2, result(3));  // resent by the new launcher
  EXPECT_EQ(sequences(answered, 2).front(), 4u);
}

TEST(AnsweredCollectives, KeepsTheNewestHoweverLarge) {
  AnsweredCollectives answered;
  answered.add(1, result(1, AnsweredCollectives::kBytesMax));
  answered.add(1, result(2, AnsweredCollectives::kBytesMax + 1));
  EXPECT_EQ(sequences(answered, 2), (std::vector<std::uint64_t>{2}));
}

TEST(OncePerNode, TheFirstRunsAndTheOthersHearHowItWent) {
  OncePerNode board;
  const auto first = board.begin(Rank{1}, "download");
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].first, Rank{1});
  EXPECT_EQ(first[0].second.verdict, "run");
  EXPECT_TRUE(board.begin(Rank{0}, "download").empty());

  const auto told = board.end({.name = "download", .error = "no route"});

  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, Rank{0});
  EXPECT_EQ(told[0].second.verdict, "failed");
  EXPECT_EQ(told[0].second.error, "no route");
  EXPECT_EQ(board.begin(Rank{2}, "download")[0].second.verdict, "failed");
  EXPECT_EQ(board.begin(Rank{2}, "other")[0].second.verdict, "run");
}

// Its answers would take its waits times the length of the error.
TEST(OncePerNode, WhoeverAsksAgainWhileItWaitsIsToldOnce) {
  OncePerNode board;
  (void)board.begin(Rank{1}, "download");
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(board.begin(Rank{0}, "download").empty());

  EXPECT_EQ(board.end({.name = "download", .error = ""}).size(), 1u);
}

TEST(OncePerNode, OfALongErrorTheOthersHearTheBeginning) {
  OncePerNode board;
  (void)board.begin(Rank{1}, "download");
  (void)board.begin(Rank{0}, "download");

  const auto told = board.end({.name = "download", .error = std::string(4u << 20, 'x')});

  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].second.error.ends_with("x..."));
  EXPECT_LE(told[0].second.error.size(), OncePerNode::kErrorBytesMax + 3);
}

}  // namespace
}  // namespace train
