#include "launcher/core/failover_nodes.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using Change = FailoverNodes::Change;
using Nodes = std::vector<NodeId>;
constexpr NodeId kA{1}, kB{2}, kC{3};
constexpr TimePoint kNow{seconds(1000)};

class FailoverNodesTest : public testing::Test {
 protected:
  /// Three nodes are up, of which two get an order: `first` and `second`, but not `third`.
  void all_up() {
    for (const NodeId node : {kA, kB, kC}) EXPECT_EQ(up(node), Change{.of_note = true});
    const Change chosen = nodes.tick(kNow);
    ASSERT_EQ(chosen.prepare.size(), 2u);
    EXPECT_EQ(chosen,
              (Change{.prepare = {{chosen.prepare[0].node, 0}, {chosen.prepare[1].node, 1}}}));
    first = chosen.prepare[0].node;
    second = chosen.prepare[1].node;
    third = NodeId{kA.value + kB.value + kC.value - first.value - second.value};
  }
  Change up(NodeId node) { return nodes.up(node, /*attached=*/true, /*draining=*/false, kNow); }
  Change says_yes(NodeId node) { return nodes.answered(node, true, "", kNow); }
  Change says_no(NodeId node, const std::string& why) {
    return nodes.answered(node, false, why, kNow);
  }

  FailoverNodes nodes{2, /*seed=*/7};
  NodeId first, second, third;
};

TEST_F(FailoverNodesTest, TwoNodesGetOrdersAndAreReadyOnceTheySaySo) {
  all_up();
  EXPECT_EQ(nodes.ready(), Nodes());
  EXPECT_EQ(says_yes(second), Change{.of_note = true});
  EXPECT_FALSE(nodes.settled());
  EXPECT_EQ(says_yes(first), Change{.of_note = true});
  EXPECT_EQ(says_yes(first), Change{}) << "no news";
  EXPECT_EQ(nodes.ready(), (Nodes{first, second}));
  EXPECT_TRUE(nodes.settled());
  EXPECT_EQ(nodes.voters(), (std::set<NodeId>{kA, kB, kC}));
  EXPECT_EQ(nodes.tick(kNow + std::chrono::hours(1)), Change{});
}

TEST_F(FailoverNodesTest, NewsOfANodeChangesNothing) {
  all_up();
  EXPECT_EQ(nodes.up(first, /*attached=*/false, false, kNow), Change{});
}

TEST_F(FailoverNodesTest, AnOrderIsGivenAgainOverANewLink) {
  all_up();
  says_yes(second);
  EXPECT_EQ(up(second), (Change{.prepare = {{second, 1}}}));
  EXPECT_EQ(nodes.ready(), Nodes{second});
}

TEST_F(FailoverNodesTest, AnotherNodeTakesThePlaceOfOneThatIsLost) {
  all_up();
  says_yes(first);
  EXPECT_EQ(nodes.down(first), Change{.of_note = true});
  EXPECT_EQ(nodes.ready(), Nodes());
  EXPECT_EQ(nodes.tick(kNow), (Change{.prepare = {{third, 0}}}));
  EXPECT_EQ(nodes.voters(), (std::set<NodeId>{second, third}));

  EXPECT_EQ(up(first), (Change{.cancel = {first}, .of_note = true})) << "it may have its order";
  EXPECT_EQ(up(first), Change{}) << "once";
}

TEST_F(FailoverNodesTest, ADrainingNodeIsReplacedAndMayBeChosenAgainAfterwards) {
  all_up();
  says_yes(first);
  EXPECT_EQ(nodes.up(first, false, /*draining=*/true, kNow),
            (Change{.cancel = {first}, .of_note = true}));
  EXPECT_EQ(nodes.tick(kNow), (Change{.prepare = {{third, 0}}}));
  EXPECT_FALSE(nodes.voters().contains(first)) << "it leaves";

  EXPECT_EQ(nodes.up(first, false, false, kNow), Change{.of_note = true});
  nodes.down(second);
  EXPECT_EQ(nodes.tick(kNow), (Change{.prepare = {{first, 1}}}));
}

TEST_F(FailoverNodesTest, ANodeThatCannotIsReplaced) {
  all_up();
  EXPECT_EQ(says_no(first, "no such folder"), Change{});
  EXPECT_EQ(nodes.tick(kNow), (Change{.prepare = {{third, 0}}}));
  EXPECT_FALSE(nodes.trouble()) << "others are asked";
  says_no(second, "no such folder");
  says_no(third, "no such folder");
  EXPECT_EQ(nodes.tick(kNow), Change{});
  EXPECT_EQ(nodes.trouble(), std::pair(kA, std::string("no such folder")));
  EXPECT_TRUE(nodes.settled());
  EXPECT_EQ(up(first), Change{}) << "it is not asked again";

  nodes.down(first);
  up(first);
  EXPECT_EQ(nodes.tick(kNow), (Change{.prepare = {{first, 0}}})) << "it may have changed";
  EXPECT_FALSE(nodes.trouble());
}

TEST_F(FailoverNodesTest, NodesThatCouldNotAreAskedAgainAfterTenMinutes) {
  all_up();
  for (const NodeId node : {first, second}) says_no(node, "the storage does not answer");
  nodes.tick(kNow);
  says_no(third, "the storage does not answer");
  EXPECT_EQ(nodes.tick(kNow + std::chrono::minutes(9)), Change{});
  EXPECT_EQ(nodes.tick(kNow + std::chrono::minutes(10)).prepare.size(), 2u);
}

TEST_F(FailoverNodesTest, ANodeThatDoesNotAnswerIsReplaced) {
  all_up();
  says_yes(second);
  EXPECT_EQ(nodes.tick(kNow + seconds(49)), Change{});
  EXPECT_EQ(nodes.tick(kNow + seconds(50)), (Change{.prepare = {{third, 0}}, .cancel = {first}}));
  EXPECT_EQ(says_yes(first), Change{}) << "too late";
  EXPECT_EQ(nodes.ready(), Nodes{second});
}

TEST_F(FailoverNodesTest, AnAnswerThatComesTooLateCountsForNothing) {
  all_up();
  nodes.down(first);
  EXPECT_EQ(says_yes(first), Change{});
  EXPECT_EQ(says_no(first, "no"), Change{});
  EXPECT_EQ(nodes.ready(), Nodes());
}

// Its traind is being restarted, or its link is broken.
TEST_F(FailoverNodesTest, ANodeThatIsAwayIsReplacedAfterFiveSeconds) {
  all_up();
  says_yes(first);
  nodes.away(first, kNow);
  EXPECT_EQ(nodes.tick(kNow + seconds(4)), Change{});
  nodes.away(first, kNow + seconds(4));
  EXPECT_EQ(nodes.tick(kNow + seconds(5)), (Change{.prepare = {{third, 0}}, .of_note = true}));
  EXPECT_EQ(nodes.voters(), (std::set<NodeId>{second, third}));

  EXPECT_EQ(up(first), (Change{.cancel = {first}, .of_note = true}));
  EXPECT_EQ(nodes.voters(), (std::set<NodeId>{first, second, third}));
}

TEST_F(FailoverNodesTest, ALinkThatIsBackSoonChangesNothing) {
  all_up();
  nodes.away(first, kNow);
  EXPECT_EQ(up(first), (Change{.prepare = {{first, 0}}}));
  EXPECT_EQ(nodes.tick(kNow + seconds(6)), Change{});
}

TEST_F(FailoverNodesTest, ThatNoneCanIsSaidOnceAllWereAsked) {
  all_up();
  says_no(first, "no such folder");
  says_no(second, "no such folder");
  EXPECT_FALSE(nodes.trouble()) << "the third is not asked yet";
}

// A cluster without shared storage is not asked node by node.
TEST(FailoverNodes, AfterEightThatCannotNoMoreAreAsked) {
  FailoverNodes nodes(1, 0);
  for (int i = 0; i < 100; ++i) nodes.up(NodeId{i}, true, false, kNow);
  int asked = 0;
  for (int i = 0; i < 100; ++i) {
    for (const auto& order : nodes.tick(kNow).prepare) {
      ++asked;
      nodes.answered(order.node, false, "no such folder", kNow);
    }
  }
  EXPECT_EQ(asked, 8);
  EXPECT_TRUE(nodes.trouble());
}

TEST(FailoverNodes, RunsChooseDifferentNodes) {
  std::set<NodeId> chosen;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    FailoverNodes nodes(1, seed);
    for (int i = 0; i < 20; ++i) nodes.up(NodeId{i}, true, false, kNow);
    chosen.insert(nodes.tick(kNow).prepare.at(0).node);
  }
  EXPECT_GT(chosen.size(), 10u);
}

TEST(FailoverNodes, NoneIsChosenIfNoneIsWanted) {
  FailoverNodes nodes(0, 0);
  nodes.up(kA, true, false, kNow);
  EXPECT_EQ(nodes.tick(kNow), Change{});
  EXPECT_FALSE(nodes.trouble());
}

}  // namespace
}  // namespace train
