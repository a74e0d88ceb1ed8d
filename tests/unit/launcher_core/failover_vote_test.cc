#include "launcher/core/failover_vote.h"

#include <gtest/gtest.h>

namespace train {
namespace {

FailoverVoter silent(const std::string& node) { return {.node = node}; }
FailoverVoter without(const std::string& node) { return {.node = node, .answered = true}; }
FailoverVoter with(const std::string& node) {
  return {.node = node, .answered = true, .attached = true};
}

TEST(FailoverVote, TakesOverWhatMostNodesHaveLost) {
  EXPECT_TRUE(may_take_over({without("b")}));
  EXPECT_TRUE(may_take_over({without("b"), without("c"), silent("d")}));
}

TEST(FailoverVote, TakesOverNothingThatOneNodeIsInTouchWith) {
  const auto vote = may_take_over({without("b"), without("c"), with("d:7070")});
  ASSERT_FALSE(vote);
  EXPECT_EQ(vote.error().code, Errc::Unavailable);
  EXPECT_EQ(vote.error().message, "the run's controller lives: d:7070 is in touch with it");
}

TEST(FailoverVote, HalfOfTheNodesAreTooFew) {
  const auto vote = may_take_over({without("b"), silent("c")});
  ASSERT_FALSE(vote);
  EXPECT_EQ(vote.error().message,
            "only 1 of the 2 nodes that the run's controller was in touch with answer here: it may "
            "live among the others");
  EXPECT_FALSE(may_take_over({silent("b"), silent("c")}));
  EXPECT_EQ(may_take_over({}).error().message,
            "the run's controller was in touch with no other node");
}

}  // namespace
}  // namespace train
