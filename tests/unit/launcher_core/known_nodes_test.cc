#include "launcher/core/known_nodes.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using Change = KnownNodes::Change;

TEST(KnownNodes, ANewNodeGetsTheNextNumberAndKeepsItForEver) {
  KnownNodes nodes({"a:1", "b:1"});

  EXPECT_EQ(nodes.list({"a:1", "b:1"}), Change{});
  EXPECT_EQ(nodes.list({"c:1", "a:1", "b:1"}), (Change{.found = {{NodeId{2}, "c:1"}}}));
  EXPECT_EQ(nodes.list({"a:1"}), (Change{.vanished = {NodeId{1}, NodeId{2}}}));
  EXPECT_EQ(nodes.list({"d:1", "c:1", "a:1"}),
            (Change{.found = {{NodeId{3}, "d:1"}}, .back = {NodeId{2}}}));
}

TEST(KnownNodes, ANodeThatIsListedTwiceIsOne) {
  KnownNodes nodes({"a:1"});
  EXPECT_EQ(nodes.list({"b:1", "a:1", "b:1"}), (Change{.found = {{NodeId{1}, "b:1"}}}));
}

TEST(KnownNodes, AListThatChangesAllTheTimeHasALimit) {
  KnownNodes nodes({"a:1"});
  std::vector<std::string> many;
  for (std::size_t i = 0; i < kKnownNodesMax; ++i) many.push_back(std::to_string(i) + ":1");

  const Change first = nodes.list(many);
  EXPECT_EQ(first.found.size(), kKnownNodesMax - 1);
  EXPECT_EQ(first.too_many, 1u);
  const Change later = nodes.list({"a:1", "z:1"});
  EXPECT_TRUE(later.found.empty());
  EXPECT_EQ(later.too_many, 1u);
  EXPECT_EQ(later.back, (std::vector<NodeId>{NodeId{0}}));
}

}  // namespace
}  // namespace train
