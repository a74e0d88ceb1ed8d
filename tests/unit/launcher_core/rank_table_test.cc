// What RankTable counts must always be what one would find by looking at all ranks.
#include "launcher/core/rank_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using Entry = RankTable::Entry;

Placement three_nodes() {
  return {.world_size = 6,
          .nodes = {{kNodeA, NodeRank{0}, Rank{0}, 3},
                    {kNodeB, NodeRank{1}, Rank{3}, 1},
                    {kNodeC, NodeRank{2}, Rank{4}, 2}},
          .reason = ""};
}

void expect_counts_of_all(const RankTable& ranks) {
  const auto any = [&ranks](auto condition) {
    return std::any_of(ranks.all().begin(), ranks.all().end(), condition);
  };
  const auto all = [&ranks](auto condition) {
    return std::all_of(ranks.all().begin(), ranks.all().end(), condition);
  };
  EXPECT_EQ(ranks.all_ended(), !any([](const Entry& e) { return e.alive(); }));
  EXPECT_EQ(ranks.any_ended(), any([](const Entry& e) { return !e.alive(); }));
  EXPECT_EQ(ranks.any_joined(), any([](const Entry& e) { return e.joined; }));
  EXPECT_EQ(ranks.all_joined(), all([](const Entry& e) { return e.joined; }));
  EXPECT_EQ(ranks.any_reports(), any([](const Entry& e) { return e.reports(); }));
  EXPECT_EQ(ranks.any_ever_reported(), any([](const Entry& e) { return e.known_report() > 0; }));
  EXPECT_EQ(ranks.all_ended_by_themselves(),
            all([](const Entry& e) { return e.end && e.end->by_itself(); }));
  EXPECT_EQ(ranks.any_paused(), any([](const Entry& e) { return e.reports() && e.paused; }));
  EXPECT_EQ(ranks.any_on_the_way(), any([](const Entry& e) { return e.reports() && !e.paused; }));
  EXPECT_EQ(ranks.any_checkpoint_pending(),
            any([](const Entry& e) { return e.reports() && e.checkpoint_pending; }));
  EXPECT_EQ(ranks.all_living_paused(), all([](const Entry& e) { return !e.alive() || e.paused; }));
  EXPECT_EQ(ranks.any_silent(), any([](const Entry& e) { return e.alive() && !e.reports(); }));
}

TEST(RankTable, CountsWhatALookAtAllRanksWouldFind) {
  std::mt19937 random(7);  // NOLINT: the same each time
  const auto below = [&random](int n) { return static_cast<int>(random() % n); };
  for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
    RankTable ranks(three_nodes());
    expect_counts_of_all(ranks);
    for (int step = 0; step < 60; ++step) {
      const Rank rank{below(6)};
      const std::uint64_t report = static_cast<std::uint64_t>(below(4));
      const std::uint64_t before = ranks.version();
      bool changes = true;
      switch (below(8)) {
        case 0:
        case 1:
          ranks.change(rank, [](Entry& entry) { entry.joined = true; });
          break;
        case 2:
          ranks.change(rank, [&](Entry& entry) { entry.reported = report; });
          break;
        case 3:
        case 4:
          ranks.change(rank, [&](Entry& entry) {
            entry.paused = report;
            entry.arrived = below(2) == 0;
            entry.checkpoint_pending = below(2) == 0;
          });
          break;
        case 5:
          changes = false;  // perhaps
          ranks.resume_until(report);
          break;
        case 6:
          if (below(4) == 0) {
            ranks.ended(rank, exited(below(2)));
          } else {
            changes = false;
          }
          break;
        default:
          changes = below(9) == 0 && !ranks.node_lost(ranks.find(rank)->node).empty();
      }
      if (changes) EXPECT_NE(ranks.version(), before);
      expect_counts_of_all(ranks);
    }
  }
}

TEST(RankTable, ALostNodeTakesItsOwnRanksAlong) {
  RankTable ranks(three_nodes());
  ranks.ended(Rank{1}, exited(0));

  EXPECT_EQ(ranks.node_lost(kNodeA), (std::vector<Rank>{Rank{0}, Rank{2}}));
  EXPECT_TRUE(ranks.node_lost(kNodeA).empty());
  EXPECT_TRUE(ranks.node_lost(NodeId{99}).empty());
  EXPECT_EQ(ranks.node_lost(kNodeC), (std::vector<Rank>{Rank{4}, Rank{5}}));
  EXPECT_FALSE(ranks.all_ended());
  EXPECT_EQ(ranks.node_lost(kNodeB), std::vector<Rank>{Rank{3}});
  EXPECT_TRUE(ranks.all_ended());
  EXPECT_FALSE(ranks.change(Rank{6}, [](Entry&) { FAIL(); }));
  EXPECT_FALSE(ranks.change(Rank{-1}, [](Entry&) { FAIL(); }));
}

}  // namespace
}  // namespace train
