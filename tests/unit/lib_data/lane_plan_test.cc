#include "lib/data/plan/lane_plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace train::data {
namespace {

using Rows = std::vector<std::pair<std::int64_t, std::int64_t>>;  // unit, row

Rows rows_of(const std::vector<RowRange>& ranges) {
  Rows rows;
  for (const RowRange& range : ranges)
    for (std::int64_t row = 0; row < range.count; ++row)
      rows.emplace_back(range.unit, range.first + row);
  return rows;
}

std::vector<std::string> names_of(int count, int first = 0) {
  std::vector<std::string> names;
  for (int i = first; i < first + count; ++i) names.push_back("ingest-train-" + std::to_string(i));
  return names;
}

TEST(AddressOwners, AreTheSameWhateverTheOrderOfTheNames) {
  std::vector<std::string> names = names_of(5);
  std::vector<std::string> turned(names.rbegin(), names.rend());

  const auto owners = address_owners(names, 48);
  const auto owners_of_turned = address_owners(turned, 48);

  for (std::size_t at = 0; at < owners.size(); ++at)
    EXPECT_EQ(names[owners[at]], turned[owners_of_turned[at]]) << at;
}

TEST(AddressOwners, ShareTheAddressesEquallyRoundedUp) {
  for (int count = 1; count <= 7; ++count) {
    std::map<std::size_t, int> owned;
    for (const std::size_t owner : address_owners(names_of(count), 16)) ++owned[owner];
    for (const auto& [owner, addresses] : owned)
      EXPECT_LE(addresses, (16 + count - 1) / count) << count;
  }
}

TEST(AddressOwners, KeepMostOfTheirAddressesWhenOneOfThemGoes) {
  const std::vector<std::string> names = names_of(8);
  const auto before = address_owners(names, 1024);

  const auto after = address_owners({names.begin(), names.end() - 1}, 1024);

  int moved = 0;
  for (std::size_t at = 0; at < before.size(); ++at)
    moved += before[at] < 7 && before[at] != after[at] ? 1 : 0;
  EXPECT_LT(moved, 1024 / 4);
}

TEST(Addresses, OfFewLanesAreSharedInTurns) {
  EXPECT_EQ(Addresses(1).count(), 16);
  EXPECT_EQ(Addresses(3).count(), 18);
  EXPECT_EQ(Addresses(16).count(), 16);
  EXPECT_EQ(Addresses(32).turns(), 1);
  EXPECT_EQ(Addresses(1).of(0, 17), 1);
}

/// Joins what the owners read of a step.
Rows joined(const ShardPlan& plan, const Addresses& addresses, std::int64_t step,
            const std::vector<std::size_t>& owners, std::vector<Rows> parts) {
  std::vector<std::size_t> next(parts.size());
  Rows rows;
  for (const LaneRows& lane : plan.lane_rows(step)) {
    const std::size_t owner = owners[static_cast<std::size_t>(addresses.of(lane.lane, step))];
    for (std::int64_t i = 0; i < lane.count; ++i) rows.push_back(parts[owner].at(next[owner]++));
  }
  for (std::size_t owner = 0; owner < parts.size(); ++owner)
    EXPECT_EQ(next[owner], parts[owner].size());
  return rows;
}

PlanInput random_input(std::mt19937_64& random) {
  const auto below = [&](std::int64_t end) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(end));
  };
  PlanInput input;
  for (std::int64_t unit = 1 + below(30); unit > 0; --unit)
    input.layout.unit_rows.push_back(below(4) == 0 ? 0 : below(40));
  input.layout.unit_rows.push_back(1);
  input.layout.file_units = {static_cast<std::int64_t>(input.layout.unit_rows.size())};
  input.layout.file_bytes = {1};
  for (std::int64_t rank = 1 + below(5); rank > 0; --rank)
    input.batch_sizes.push_back(1 + below(20));
  input.rank = static_cast<int>(below(static_cast<std::int64_t>(input.batch_sizes.size())));
  constexpr Shuffle kShuffles[] = {Shuffle::None, Shuffle::Files, Shuffle::Window, Shuffle::Rows};
  input.order.shuffle = kShuffles[below(4)];
  input.order.seed = random();
  input.order.lanes = input.order.shuffle == Shuffle::Rows ? 1 : 1 + below(40);
  input.order.block_rows = input.order.shuffle == Shuffle::Rows ? 0 : below(9);
  input.epoch = random() % 5;
  std::int64_t rows = 0;
  for (const std::int64_t of_unit : input.layout.unit_rows) rows += of_unit;
  input.rows_consumed = below(rows + 1);
  input.drop_last = below(2) == 0;
  return input;
}

TEST(LanePlan, GivesTheRowsOfThePlainPlanWhoeverReadsThem) {
  std::mt19937_64 random(7);
  std::int64_t steps = 0;
  for (int round = 0; round < 400; ++round) {
    const ShardPlan plan = *ShardPlan::make(random_input(random));
    const Addresses addresses(plan.order().spec().lanes);
    LanePlan lanes(plan);
    std::map<AddressSet, std::size_t> known;
    std::vector<std::string> names = names_of(1 + static_cast<int>(random() % 4));
    for (std::int64_t step = 0; step < plan.batches(); ++step, ++steps) {
      if (random() % 4 == 0) {  // others come and go
        names = names_of(1 + static_cast<int>(random() % 4), static_cast<int>(random() % 3));
      }
      const auto owners = address_owners(names, addresses.count());
      std::vector<Rows> parts(names.size());
      for (std::size_t owner = 0; owner < names.size(); ++owner) {
        AddressSet set;
        for (const std::size_t one : owners) set.push_back(one == owner);
        const auto found = known.find(set);
        const std::size_t number = found != known.end() ? found->second : lanes.add(set);
        known[set] = number;
        const auto index = lanes.index_of(number, step);
        if (index) parts[owner] = rows_of(lanes.batch(*index).ranges);
      }

      EXPECT_EQ(joined(plan, addresses, step, owners, std::move(parts)),
                rows_of(plan.batch(step).ranges));
    }
  }
  EXPECT_GT(steps, 1000);
}

TEST(LanePlan, NumbersTheStepsOfASetOneAfterTheOther) {
  LanePlan lanes(*ShardPlan::make({.layout = {{100}, {1}, {1}}, .batch_sizes = {2}}));
  AddressSet set(16);
  set[3] = set[5] = true;
  const std::size_t number = lanes.add(set);

  EXPECT_EQ(*lanes.index_of(number, 5), *lanes.index_of(number, 3) + 1);
  EXPECT_EQ(*lanes.index_of(number, 19), *lanes.index_of(number, 5) + 1);
  EXPECT_TRUE(lanes.index_of(number, 4).has_error());
  EXPECT_TRUE(lanes.index_of(number, 50).has_error());
  EXPECT_TRUE(lanes.index_of(number, -1).has_error());
}

TEST(LanePlan, IsEmptyBehindTheLastStepOfASet) {
  LanePlan lanes(*ShardPlan::make({.layout = {{100}, {1}, {1}}, .batch_sizes = {2}}));
  AddressSet set(16);
  set[3] = true;
  const std::size_t number = lanes.add(set);

  const std::int64_t last = *lanes.index_of(number, 35);
  EXPECT_EQ(lanes.batch(last).valid_rows, 2);
  EXPECT_EQ(lanes.batch(last + 1), PlannedBatch{});
  EXPECT_EQ(lanes.batch(lanes.batches() - 1), PlannedBatch{});
}

}  // namespace
}  // namespace train::data
