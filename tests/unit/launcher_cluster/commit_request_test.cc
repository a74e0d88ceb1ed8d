#include "launcher/cluster/checkpoints/commit_request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace train {
namespace {

TEST(CommitRequestOf, ReadsTheEpochMetricWhateverItsType) {
  EXPECT_EQ(epoch_of({{"loss", 0.5}, {"epoch", std::int64_t{7}}}), 7);
  EXPECT_EQ(epoch_of({{"epoch", 3.0}}), 3);
  EXPECT_EQ(epoch_of({{"epoch", 3.9}}), 3);
  EXPECT_EQ(epoch_of({{"loss", 0.5}}), -1);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double none : {std::nan(""), kInfinity, -kInfinity, -1.5, 0x1p63})
    EXPECT_EQ(epoch_of({{"epoch", none}}), -1) << none;
}

TEST(CommitRequestOf, ACommitHasTheShardsAndTheMetadataOfRankZero) {
  StagedShard first, second;
  first.rank = Rank{1};
  first.dir = ".rank-0001";
  first.metadata_json = R"({"of": 1})";
  second.rank = Rank{0};
  second.dir = "data-4-5.2/rank-0000";
  second.files = {{"state", 5, {6, 7}}};
  second.metadata_json = R"({"of": 0})";
  second.nodes = {"n1", "n2"};

  const CommitRequest request = commit_request(
      {.attempt = Attempt{5}, .checkpoint_seq = 2, .number = 9, .shards = {first, second}},
      Generation{4}, "2026-11-21T09:38:00.123456Z", {{"loss", 0.5}});

  EXPECT_EQ(request.pending, (PendingCheckpoint{Generation{4}, Attempt{5}, CheckpointSeq{2}}));
  EXPECT_EQ(request.number, CheckpointNumber{9});
  EXPECT_EQ(request.world_size, 2);
  EXPECT_EQ(request.created, "2026-11-21T09:38:00.123456Z");
  EXPECT_EQ(request.metrics, (Metrics{{"loss", 0.5}}));
  EXPECT_EQ(request.metadata, (boost::json::object{{"of", 0}}));
  ASSERT_EQ(request.shards.size(), 2u);
  EXPECT_EQ(request.shards[1].rank, Rank{0});
  EXPECT_EQ(request.shards[1].dir, "data-4-5.2/rank-0000");
  EXPECT_EQ(request.shards[1].nodes, (std::vector<std::string>{"n1", "n2"}));
  ASSERT_EQ(request.shards[1].files.size(), 1u);
  EXPECT_EQ(request.shards[1].files, second.files);
  EXPECT_TRUE(request.shards[0].files.empty());
}

TEST(CommitRequestOf, MetadataThatIsNoObjectIsLeftOut) {
  for (const char* text : {"[1]", "{", "7", ""}) {
    StagedShard shard;
    shard.metadata_json = text;
    EXPECT_TRUE(commit_request({.shards = {shard}}, Generation{1}, "", {}).metadata.empty())
        << text;
  }
}

}  // namespace
}  // namespace train
