#include "launcher/core/host_table.h"

#include <gtest/gtest.h>

#include "launcher/core/teardown.h"

namespace train {
namespace {

constexpr NodeId kA{0}, kB{1}, kElsewhere{7};
constexpr TimePoint kNow{seconds(100)};

Placement two_nodes() {
  return {.world_size = 2,
          .nodes = {{kA, NodeRank{0}, Rank{0}, 1}, {kB, NodeRank{1}, Rank{1}, 1}},
          .reason = ""};
}

Start order_of(int restarts) {
  Start start;
  start.restart_count = restarts;
  return start;
}

std::vector<NodeId> there(const HostTable& hosts) {
  std::vector<NodeId> found;
  hosts.for_each_there([&](NodeId node) { found.push_back(node); });
  return found;
}
std::vector<NodeId> supervised(const HostTable& hosts) {
  std::vector<NodeId> found;
  hosts.for_each_supervised([&](NodeId node) { found.push_back(node); });
  return found;
}

TEST(HostTable, KnowsTheNodesOfItsAttempt) {
  const HostTable hosts(two_nodes());

  EXPECT_TRUE(hosts.has(kA) && hosts.has(kB));
  EXPECT_FALSE(hosts.has(kElsewhere));
  EXPECT_EQ(hosts.placed(kB).first_rank, Rank{1});
  EXPECT_FALSE(HostTable().has(kA));
}

TEST(HostTable, AllArePreparedAndStartedOnceEachIs) {
  HostTable hosts(two_nodes());
  hosts.prepared(kA);
  EXPECT_FALSE(hosts.all_prepared());
  hosts.prepared(kB);
  EXPECT_TRUE(hosts.all_prepared());

  hosts.ordered(kA, order_of(1));
  hosts.ordered(kB, order_of(2));
  EXPECT_TRUE(hosts.started(kA));
  EXPECT_FALSE(hosts.started(kA)) << "only the first time";
  EXPECT_FALSE(hosts.all_started());
  hosts.started(kB);
  EXPECT_TRUE(hosts.all_started() && hosts.all_prepared());
}

TEST(HostTable, AnOrderIsToBeRepeatedUntilItIsAnswered) {
  HostTable hosts(two_nodes());
  hosts.prepared(kA);
  EXPECT_EQ(hosts.unanswered_order(kA), nullptr);

  hosts.ordered(kA, order_of(3));
  ASSERT_NE(hosts.unanswered_order(kA), nullptr);
  EXPECT_EQ(hosts.unanswered_order(kA)->restart_count, 3);
  hosts.prepared(kA);  // resent
  EXPECT_NE(hosts.unanswered_order(kA), nullptr);

  hosts.started(kA);
  EXPECT_EQ(hosts.unanswered_order(kA), nullptr);
  hosts.ordered(kA, order_of(4));
  EXPECT_EQ(hosts.unanswered_order(kA), nullptr) << "it has started";
}

TEST(HostTable, AnAdoptedAttemptIsFoundOnceAllHaveAnsweredOrAreGone) {
  HostTable hosts = HostTable::adopted(two_nodes());
  EXPECT_TRUE(hosts.all_prepared());
  EXPECT_EQ(hosts.found(), HostTable::Found::NotYet);

  hosts.attached(kA, true);
  EXPECT_TRUE(hosts.is_attached(kA));
  EXPECT_FALSE(hosts.is_attached(kB));
  EXPECT_EQ(hosts.found(), HostTable::Found::NotYet);
  hosts.gone(kB);
  EXPECT_EQ(hosts.found(), HostTable::Found::All);

  hosts.attached(kA, false);
  EXPECT_EQ(hosts.found(), HostTable::Found::NotAllStarted);
}

TEST(HostTable, WhoIsGoneMayStillBeToldAndWhoIsLostMayNot) {
  HostTable hosts(two_nodes());
  EXPECT_EQ(there(hosts), (std::vector<NodeId>{kA, kB}));

  hosts.gone(kA);
  EXPECT_EQ(there(hosts), std::vector<NodeId>{kB});
  EXPECT_EQ(supervised(hosts), (std::vector<NodeId>{kA, kB}));
  EXPECT_FALSE(hosts.all_gone());

  hosts.lost(kB);
  hosts.gone(kB);
  EXPECT_TRUE(hosts.all_gone() && hosts.is_gone(kB) && hosts.is_lost(kB));
  EXPECT_FALSE(hosts.is_lost(kA));
  EXPECT_EQ(supervised(hosts), std::vector<NodeId>{kA});
}

TEST(Teardown, ANodeThatIsToldLaterHasTheTimeThatIsLeft) {
  Teardown teardown;
  teardown.begin(seconds(10), "Ctrl-C", kNow);

  const StopGroup first = teardown.order_for(Attempt{3}, kA, kNow);
  EXPECT_EQ(first, (StopGroup{Attempt{3}, kA, seconds(10), "Ctrl-C"}));
  EXPECT_EQ(teardown.order_for(Attempt{3}, kB, kNow + seconds(4)).grace, seconds(6));
  EXPECT_EQ(teardown.order_for(Attempt{3}, kB, kNow + seconds(40)).grace, Duration{0});
}

TEST(Teardown, StoringIsWaitedForUntilItIsEscalated) {
  Teardown teardown;
  teardown.begin(seconds(10), "Ctrl-C", kNow);

  EXPECT_EQ(teardown.shards(false, kNow + seconds(1000)), Teardown::Shards::Awaited);
  EXPECT_EQ(teardown.next_deadline(), std::nullopt);
}

TEST(Teardown, EscalatedStoringIsGivenUpSomeTimeAfterTheLastWorkersEnd) {
  Teardown teardown;
  teardown.escalate();
  EXPECT_TRUE(teardown.escalated());
  EXPECT_EQ(teardown.shards(true, kNow), Teardown::Shards::Awaited);
  EXPECT_EQ(teardown.next_deadline(), std::nullopt);

  EXPECT_EQ(teardown.shards(false, kNow), Teardown::Shards::Awaited);
  EXPECT_EQ(teardown.next_deadline(), kNow + kShardsTimeout);
  EXPECT_EQ(teardown.shards(false, kNow + kShardsTimeout), Teardown::Shards::GivenUpNow);
  EXPECT_EQ(teardown.shards(false, kNow + kShardsTimeout), Teardown::Shards::GivenUp);
  EXPECT_EQ(teardown.next_deadline(), std::nullopt);
}

}  // namespace
}  // namespace train
