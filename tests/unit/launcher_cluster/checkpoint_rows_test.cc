// How the spec determines the scores, the best and the latest of a run's checkpoints.
#include "launcher/cluster/checkpoints/checkpoint_rows.h"

#include <gtest/gtest.h>

namespace train {
namespace {

ListedCheckpoint listed(std::uint64_t number, Metrics metrics) {
  return {CheckpointNumber{number}, "/run/checkpoints/" + checkpoint_name(CheckpointNumber{number}),
          Manifest{.checkpoint = CheckpointNumber{number},
                   .world_size = 2,
                   .created = "2026-11-21T09:38:00.123456Z",
                   .files = {{"model.pt", 5, {}, {Rank{0}}}, {"rng.bin", 3, {}, {Rank{1}}}},
                   .metrics = std::move(metrics)}};
}

TEST(CheckpointRows, KnowTheBestAndTheLatestOfThoseThatCanBeUsed) {
  const CheckpointConfig config{
      .num_to_keep = {}, .score_attribute = "loss", .score_order = ScoreOrder::Min};

  const CheckpointTable table =
      checkpoint_table({listed(1, {{"loss", 0.1}, {"epoch", std::int64_t{0}}}),
                        listed(2, {{"loss", 0.3}}),
                        {CheckpointNumber{3}, "/run/checkpoints/checkpoint_000003",
                         Error{Errc::Corrupt, "'model.pt': missing"}}},
                       config);

  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(table.score_attribute, "loss");
  EXPECT_EQ(table.rows[0].name, "checkpoint_000001");
  EXPECT_EQ(table.rows[0].bytes, 8u);
  EXPECT_EQ(table.rows[0].files, 2u);
  EXPECT_EQ(table.rows[0].world_size, 2);
  EXPECT_EQ(table.rows[0].epoch, 0);
  EXPECT_EQ(table.rows[0].score, 0.1);
  EXPECT_TRUE(table.rows[0].best && !table.rows[0].latest);
  EXPECT_EQ(table.rows[1].epoch, std::nullopt);
  EXPECT_TRUE(table.rows[1].latest && !table.rows[1].best);
  EXPECT_EQ(table.rows[2].error, "'model.pt': missing");
  EXPECT_FALSE(table.rows[2].latest || table.rows[2].best);
}

TEST(CheckpointRows, SayHowTheirValidationEnded) {
  ListedCheckpoint failed = listed(1, {}), good = listed(2, {});
  failed.validation = ValidationRecord{
      .checkpoint = CheckpointNumber{1}, .status = ValidationStatus::Failed, .error = "row 7 of 5"};
  good.validation = ValidationRecord{.checkpoint = CheckpointNumber{2}};

  const CheckpointTable table = checkpoint_table({failed, good, listed(3, {})}, {});

  EXPECT_EQ(table.rows[0].validation, "failed");
  EXPECT_EQ(table.rows[0].validation_error, "row 7 of 5");
  EXPECT_EQ(table.rows[1].validation, "validated");
  EXPECT_EQ(table.rows[1].validation_error, "");
  EXPECT_EQ(table.rows[2].validation, "");
}

TEST(CheckpointRows, WithoutAScoreTheLatestIsTheBest) {
  const CheckpointTable table = checkpoint_table({listed(1, {}), listed(2, {})}, {});

  EXPECT_EQ(table.score_attribute, "");
  EXPECT_FALSE(table.rows[0].latest || table.rows[0].best);
  EXPECT_TRUE(table.rows[1].latest && table.rows[1].best);
}

}  // namespace
}  // namespace train
