#include "lib/storage/retention.h"

#include <gtest/gtest.h>

#include <cmath>

namespace train {
namespace {

using Numbers = std::vector<std::uint64_t>;

struct Row {
  const char* what;
  std::optional<int> num_to_keep;
  std::optional<std::string> attribute;
  BestIs best_is;
  std::vector<std::optional<double>> scores;  // of checkpoints 1, 2, 3 …
  std::set<CheckpointNumber> pinned;
  std::uint64_t best;
  Numbers removed;
};

const std::optional<double> kNone;

TEST(Retention, KeepsTheBestAndAlwaysTheNewest) {
  const std::vector<Row> table = {
      {"all are kept when num_to_keep is unset",
       {},
       "acc",
       BestIs::Highest,
       {0.1, 0.3, 0.2},
       {},
       2,
       {}},
      {"fewer than num_to_keep", 3, "acc", BestIs::Highest, {0.1, 0.3}, {}, 2, {}},
      {"the newest, without an attribute", 1, {}, BestIs::Highest, {0.9, 0.1, 0.5}, {}, 3, {1, 2}},
      {"the two newest, without an attribute",
       2,
       {},
       BestIs::Highest,
       {kNone, kNone, kNone, kNone},
       {},
       4,
       {1, 2}},
      {"the best and the newest", 1, "acc", BestIs::Highest, {0.9, 0.1, 0.5}, {}, 1, {2}},
      {"the newest is the best", 1, "acc", BestIs::Highest, {0.1, 0.5, 0.9}, {}, 3, {1, 2}},
      {"lowest is best", 1, "loss", BestIs::Lowest, {0.9, 0.1, 0.5}, {}, 2, {1}},
      {"the two best beside the newest",
       2,
       "acc",
       BestIs::Highest,
       {0.9, 0.8, 0.1, 0.2},
       {},
       1,
       {3}},
      {"of equal scores the newer", 1, "acc", BestIs::Highest, {0.5, 0.5, 0.5, 0.1}, {}, 3, {1, 2}},
      {"no score counts as the worst",
       2,
       "acc",
       BestIs::Highest,
       {kNone, 0.1, 0.2, kNone},
       {},
       3,
       {1}},
      {"no score counts as the worst, lowest best",
       2,
       "loss",
       BestIs::Lowest,
       {kNone, 0.1, 0.2, kNone},
       {},
       2,
       {1}},
      {"none has a score: the newest",
       1,
       "acc",
       BestIs::Highest,
       {kNone, kNone, kNone},
       {},
       3,
       {1, 2}},
      {"what workers restore from stays",
       1,
       {},
       BestIs::Highest,
       {kNone, kNone, kNone},
       {CheckpointNumber{1}},
       3,
       {2}},
      {"a single one", 1, "acc", BestIs::Highest, {kNone}, {}, 1, {}},
  };
  for (const Row& row : table) {
    std::vector<ScoredCheckpoint> checkpoints;
    for (std::size_t i = row.scores.size(); i > 0; --i)
      checkpoints.push_back({CheckpointNumber{i}, row.scores[i - 1]});

    const RetentionPlan plan =
        plan_retention({row.num_to_keep, row.attribute, row.best_is}, checkpoints, row.pinned);

    Numbers removed;
    for (const CheckpointNumber number : plan.remove) removed.push_back(number.value);
    EXPECT_EQ(plan.latest, CheckpointNumber{row.scores.size()}) << row.what;
    EXPECT_EQ(plan.best, CheckpointNumber{row.best}) << row.what;
    EXPECT_EQ(removed, row.removed) << row.what;
  }
}

TEST(Retention, OfNothingIsNothing) {
  EXPECT_EQ(plan_retention({.num_to_keep = 1}, {}), RetentionPlan{});
}

TEST(Score, IsTheAttributeAsANumber) {
  const RetentionPolicy policy{.num_to_keep = 1, .score_attribute = "acc"};

  EXPECT_EQ(score_of(policy, CheckpointNumber{1}, {{"acc", 0.5}}).value, 0.5);
  EXPECT_EQ(score_of(policy, CheckpointNumber{1}, {{"acc", std::int64_t{2}}}).value, 2.0);
  EXPECT_EQ(score_of({}, CheckpointNumber{1}, {{"acc", 0.5}}).value, std::nullopt);
  EXPECT_EQ(score_of({}, CheckpointNumber{1}, {}).warning, "");
}

TEST(Score, SaysWhyThereIsNone) {
  const RetentionPolicy policy{.num_to_keep = 1, .score_attribute = "acc"};

  EXPECT_EQ(
      score_of(policy, CheckpointNumber{3}, {{"loss", 1.0}, {"epoch", std::int64_t{1}}}).warning,
      "checkpoint_000003 was reported without 'acc'; it counts as the worst, since "
      "checkpoint_score_attribute is "
      "'acc' (metrics reported: 'loss', 'epoch')");
  EXPECT_EQ(score_of(policy, CheckpointNumber{3}, {}).warning,
            "checkpoint_000003 was reported without 'acc'; it counts as the worst, since "
            "checkpoint_score_attribute is "
            "'acc' (metrics reported: none)");
  EXPECT_EQ(score_of(policy, CheckpointNumber{3}, {{"acc", std::nan("")}}).warning,
            "checkpoint_000003 was reported with 'acc' = NaN; it counts as the worst, since "
            "checkpoint_score_attribute is "
            "'acc' (metrics reported: 'acc')");
  EXPECT_EQ(score_of(policy, CheckpointNumber{3}, {{"acc", std::string("high")}}).warning,
            "checkpoint_000003 was reported with a 'acc' that is no number; it counts as the "
            "worst, since "
            "checkpoint_score_attribute is 'acc' (metrics reported: 'acc')");
}

}  // namespace
}  // namespace train
