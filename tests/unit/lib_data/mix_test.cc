// A mix against its definition: the share of each dataset at every place, each row once in a pass,
// the same steps at any number of workers, and resuming at another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "lib/data/plan/mix_plan.h"

namespace train::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MixOrder order_of(std::vector<double> weights, std::vector<std::int64_t> rows,
                  MixEnd end = MixEnd::Shortest, std::int64_t epoch_rows = 0) {
  auto order = MixOrder::make({std::move(weights), std::move(rows), end, epoch_rows});
  EXPECT_TRUE(order) << order.error().describe();
  return *order;
}

std::string text_of(const MixOrder& order) {
  std::string text;
  for (std::int64_t p = 0; p < order.total_rows(); ++p)
    text += static_cast<char>('a' + order.source_at(p));
  return text;
}

TEST(MixOrder, TakesTheDatasetThatLagsMost) {
  EXPECT_EQ(text_of(order_of({0.7, 0.3}, {100, 6})), "abaaabaabaabaaabaabaa");
  EXPECT_EQ(text_of(order_of({1, 1, 2}, {2, 2, 100})), "cabccabcc");
}

TEST(MixOrder, EndsWhereARowIsMissing) {
  EXPECT_EQ(text_of(order_of({1, 1}, {3, 2})), "ababa");
  EXPECT_EQ(text_of(order_of({1, 1}, {3, 2}, MixEnd::LongestDrop)), "ababa");
  EXPECT_EQ(text_of(order_of({1, 1, 1}, {1, 4, 2}, MixEnd::LongestDrop)), "abcbcbb");
  EXPECT_EQ(text_of(order_of({1, 3}, {1, 2}, MixEnd::Rows, 10)), "babbbabbba");
}

TEST(MixOrder, CountsWhatCameBeforeEveryPosition) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> weights;
    std::vector<std::int64_t> rows;
    const std::size_t count = 1 + random() % 5;
    for (std::size_t i = 0; i < count; ++i) {
      weights.push_back(1 + static_cast<double>(random() % 100) / 7);
      rows.push_back(1 + static_cast<std::int64_t>(random() % 50));
    }
    const auto end = static_cast<MixEnd>(round % 3);
    const MixOrder order =
        order_of(weights, rows, end, 1 + static_cast<std::int64_t>(random() % 300));
    std::vector<std::int64_t> given(count, 0);
    for (std::int64_t p = 0; p <= order.total_rows(); ++p) {
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_EQ(order.before(static_cast<int>(i), p), given[i]) << round << " at " << p;
        if (end != MixEnd::Rows) ASSERT_LE(given[i], rows[i]);
      }
      if (p < order.total_rows()) ++given[static_cast<std::size_t>(order.source_at(p))];
    }
    if (end == MixEnd::LongestDrop) EXPECT_EQ(given, rows);
  }
}

TEST(MixOrder, KeepsTheProportionOfTheWeights) {
  EXPECT_THAT(whole_weights({0.7, 0.3}), ElementsAre(7, 3));
  EXPECT_THAT(whole_weights({2, 2}), ElementsAre(1, 1));
  EXPECT_THAT(whole_weights({1.0 / 3, 2.0 / 3}), ElementsAre(1, 2));
  const auto rare = whole_weights({1e-9, 1});
  EXPECT_THAT(rare, ElementsAre(1, 936));
  const auto odd = whole_weights({3.14159, 2.71828});
  EXPECT_NEAR(static_cast<double>(odd[0]) / static_cast<double>(odd[1]), 3.14159 / 2.71828, 0.003);
}

TEST(MixOrder, RefusesWhatIsNoMix) {
  const auto refusal = [](std::vector<double> weights, std::vector<std::int64_t> rows,
                          MixEnd end = MixEnd::Shortest) {
    return MixOrder::make({std::move(weights), std::move(rows), end, 0}).error().describe();
  };
  EXPECT_THAT(refusal({}, {}), HasSubstr("a mix of 0 datasets"));
  EXPECT_THAT(refusal(std::vector<double>(65, 1), std::vector<std::int64_t>(65, 1)),
              HasSubstr("a mix of 65 datasets (mix 1 to 64)"));
  EXPECT_THAT(refusal({1, 0}, {1, 1}), HasSubstr("a weight is 0"));
  EXPECT_THAT(refusal({1, INFINITY}, {1, 1}), HasSubstr("a weight is inf"));
  EXPECT_THAT(refusal({1}, {0}), HasSubstr("has 0 rows"));
  EXPECT_THAT(refusal({1}, {INT64_MAX}), HasSubstr("rows"));
  EXPECT_THAT(refusal({1}, {1}, MixEnd::Rows), HasSubstr("an epoch of 0 rows"));
}

// ---- steps

struct Member {
  UnitLayout layout;
  OrderSpec order;
};

using Id = std::tuple<int, std::int64_t, std::int64_t, std::int64_t>;  // source, pass, unit, row

/// Return the rows of a rank's step: the valid ones, in the order of the parts.
std::vector<Id> rows_of(const MixPlan& plan, const std::vector<Member>& members,
                        std::int64_t index) {
  const auto shared = std::make_shared<const MixPlan>(plan);
  const MixedStep step = plan.step(index);
  std::vector<Id> ids;
  std::set<std::pair<int, std::int64_t>> seen;
  std::int64_t in_parts = 0, in_rows = 0;
  for (const MixPart& part : step.parts) in_parts += part.count;
  for (const MixedRows& rows : step.rows) in_rows += rows.count;
  EXPECT_EQ(in_parts, in_rows);
  EXPECT_EQ(in_rows, std::max<std::int64_t>(step.valid_rows, 1));
  for (const MixPart& part : step.parts) {
    EXPECT_TRUE(seen.emplace(part.source, part.pass).second) << "one part a pass";
    const Member& member = members[static_cast<std::size_t>(part.source)];
    const MixPassPlan pass(
        shared, part.source, part.pass,
        RowOrder(member.layout, member.order, static_cast<std::uint64_t>(part.pass)));
    for (const RowRange& range : pass.batch(index).ranges)
      for (std::int64_t row = range.first; row < range.first + range.count; ++row)
        ids.emplace_back(part.source, part.pass, range.unit, row);
  }
  if (step.valid_rows == 0) ids.clear();
  return ids;
}

// The whole epoch, by groups of random sizes that take over from one another: each step has the
// same rows as with one worker, and each row of a pass comes once.
TEST(MixPlan, GivesEachRowOnceAtAnyNumberOfWorkers) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    std::vector<Member> members;
    std::vector<double> weights;
    std::vector<std::int64_t> totals;
    const std::size_t count = 1 + random() % 4;
    for (std::size_t i = 0; i < count; ++i) {
      Member member{.layout = {},
                    .order = {.shuffle = i % 2 == 0 ? Shuffle::Window : Shuffle::None,
                              .seed = random(),
                              .lanes = 1 + static_cast<std::int64_t>(random() % 5),
                              .block_rows = 3}};
      std::int64_t total = 0;
      for (std::size_t unit = 0; unit < 1 + random() % 6; ++unit) {
        member.layout.unit_rows.push_back(1 + static_cast<std::int64_t>(random() % 9));
        total += member.layout.unit_rows.back();
      }
      member.layout.file_units = {static_cast<std::int64_t>(member.layout.unit_rows.size())};
      members.push_back(std::move(member));
      totals.push_back(total);
      weights.push_back(1 + static_cast<double>(random() % 4));
    }
    const MixOrder order = order_of(weights, totals, static_cast<MixEnd>(round % 3), 40);
    constexpr std::int64_t kGlobalBatch = 12;
    std::set<Id> all;
    std::int64_t consumed = 0;
    while (consumed < order.total_rows()) {
      const std::int64_t workers = std::vector<std::int64_t>{1, 2, 3, 4, 6, 12}[random() % 6];
      const std::vector<std::int64_t> sizes(static_cast<std::size_t>(workers),
                                            kGlobalBatch / workers);
      const auto alone =
          MixPlan::make(order, {.batch_sizes = {kGlobalBatch}, .rows_consumed = consumed});
      std::multiset<Id> of_step;
      std::int64_t after = 0, steps = -1;
      for (int rank = 0; rank < workers; ++rank) {
        const auto plan =
            MixPlan::make(order, {.batch_sizes = sizes, .rank = rank, .rows_consumed = consumed});
        ASSERT_TRUE(plan && plan->batches() > 0);
        EXPECT_TRUE(steps < 0 || steps == plan->batches());
        steps = plan->batches();
        for (const Id& id : rows_of(*plan, members, 0)) of_step.insert(id);
        after = plan->step(0).rows_consumed;
      }
      const auto expected = rows_of(*alone, members, 0);
      ASSERT_EQ(of_step, std::multiset<Id>(expected.begin(), expected.end()))
          << round << " after " << consumed;
      for (const Id& id : of_step) ASSERT_TRUE(all.insert(id).second);
      consumed = after;
    }
    EXPECT_EQ(all.size(), static_cast<std::size_t>(order.total_rows()));
  }
}

TEST(MixPlan, ARankWithoutARowRepeatsOne) {
  const auto plan = MixPlan::make(order_of({1, 1}, {1, 1}),
                                  {.batch_sizes = {1, 1, 1}, .rank = 2, .rows_consumed = 0});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->batches(), 1);
  const MixedStep step = plan->step(0);
  EXPECT_EQ(step.valid_rows, 0);
  EXPECT_EQ(step.repeats, 0);
  ASSERT_EQ(step.rows.size(), 1u);
  EXPECT_EQ(step.rows_consumed, 2);
}

TEST(MixPlan, RefusesMoreThanThereIs) {
  const MixOrder order = order_of({1, 1}, {2, 2});
  EXPECT_THAT(MixPlan::make(order, {.batch_sizes = {0}}).error().describe(),
              HasSubstr("batch_size is 0"));
  EXPECT_THAT(MixPlan::make(order, {.batch_sizes = {1}, .rows_consumed = 5}).error().describe(),
              HasSubstr("5 rows of the epoch are consumed, but there are only 4"));
}

}  // namespace
}  // namespace train::data
