// When a node is suspect, lost, or merely without its traind.
#include "launcher/core/node_liveness.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using Next = NodeLiveness::Next;
using Cause = NodeLiveness::Cause;
constexpr TimePoint kStart{seconds(1000)};
constexpr LivenessLimits kLimits{.suspect_after = seconds(3),
                                 .dead_after = seconds(10),
                                 .away_limit = seconds(600),
                                 .heartbeat_every = seconds(1)};

NodeLiveness attached() {
  NodeLiveness node(kLimits, /*has_workers=*/false, kStart);
  node.connected(kStart);
  node.attached();
  return node;
}

TEST(NodeLiveness, SendsHeartbeatsAndClosesAConnectionOverWhichNothingComes) {
  NodeLiveness node = attached();
  EXPECT_EQ(node.tick(kStart), Next::Beat);
  EXPECT_EQ(node.next_deadline(), kStart + seconds(1));
  EXPECT_EQ(node.tick(kStart + milliseconds(900)), Next::Wait);
  EXPECT_EQ(node.tick(kStart + seconds(1)), Next::Beat);
  node.heard(kStart + milliseconds(1500));
  EXPECT_EQ(node.tick(kStart + milliseconds(4400)), Next::Beat);
  EXPECT_EQ(node.next_deadline(), kStart + milliseconds(4500));
  EXPECT_FALSE(node.fell_silent());

  EXPECT_EQ(node.tick(kStart + milliseconds(4500)), Next::Close);

  EXPECT_TRUE(node.fell_silent());
  node.connected(kStart + seconds(5));
  EXPECT_FALSE(node.fell_silent());
  EXPECT_EQ(node.tick(kStart + seconds(5)), Next::Beat);
}

TEST(NodeLiveness, SilenceLosesANodeAndIsSaidOnce) {
  NodeLiveness node = attached();
  EXPECT_FALSE(node.disconnected(Cause::Silent, kStart + seconds(3)).lost);
  EXPECT_FALSE(node.disconnected(Cause::Silent, kStart + seconds(10) - Duration{1}).lost);

  const auto verdict = node.disconnected(Cause::Silent, kStart + seconds(10));

  EXPECT_TRUE(verdict.lost);
  EXPECT_EQ(verdict.silent, seconds(10));
  EXPECT_TRUE(node.lost());
  EXPECT_FALSE(node.disconnected(Cause::Silent, kStart + seconds(20)).lost);
  node.attached();
  EXPECT_FALSE(node.lost());
}

TEST(NodeLiveness, ATraindThatIsAwayIsWaitedForAsLongAsItsWorkersWait) {
  NodeLiveness node = attached();
  EXPECT_FALSE(node.disconnected(Cause::Away, kStart + seconds(599)).lost);
  EXPECT_TRUE(node.disconnected(Cause::Away, kStart + seconds(600)).lost);
}

TEST(NodeLiveness, TimeInWhichItsMachineAnsweredIsNoSilence) {
  NodeLiveness node = attached();
  node.disconnected(Cause::Away, kStart + seconds(30));
  EXPECT_FALSE(node.disconnected(Cause::Silent, kStart + seconds(39)).lost);
  EXPECT_TRUE(node.disconnected(Cause::Silent, kStart + seconds(40)).lost);
}

TEST(NodeLiveness, ANodeWithoutWorkersIsNeverLost) {
  NodeLiveness unknown(kLimits, /*has_workers=*/false, kStart);
  EXPECT_FALSE(unknown.disconnected(Cause::Silent, kStart + seconds(1000)).lost);
  NodeLiveness adopted(kLimits, /*has_workers=*/true, kStart);
  EXPECT_FALSE(adopted.lost());
  EXPECT_TRUE(adopted.disconnected(Cause::Silent, kStart + seconds(10)).lost);
}

TEST(NodeLiveness, DialsLessAndLessOftenAndAKnownNodeWithAShortTimeout) {
  NodeLiveness node(kLimits, false, kStart);
  EXPECT_EQ(node.connect_limit(), seconds(5));
  EXPECT_EQ(node.handshake_limit(), std::nullopt);
  std::vector<Duration> pauses;
  for (int i = 0; i < 10; ++i) {
    node.dialling(kStart);
    pauses.push_back(node.disconnected(Cause::Away, kStart).dial_in);
  }
  EXPECT_EQ(pauses.front(), milliseconds(5));
  EXPECT_EQ(pauses[1], milliseconds(10));
  EXPECT_EQ(pauses.back(),
            seconds(1));  // a quarter of the time from suspicion to verdict, at most 1 s
  node.dialling(kStart);
  EXPECT_EQ(node.disconnected(Cause::Away, kStart + seconds(2)).dial_in, milliseconds(5));

  node.attached();

  EXPECT_TRUE(node.known());
  EXPECT_EQ(node.connect_limit(), seconds(1));
  EXPECT_EQ(node.handshake_limit(), seconds(2));
}

// Found by the simulation: after a launcher's death, a node with a round trip of 0.6 s was given up
// after six tries of 0.5 s each.
TEST(NodeLiveness, AKnownNodeThatIsFarAwayGetsLongerTriesUntilTheVerdict) {
  constexpr LivenessLimits kShort{
      .suspect_after = milliseconds(900), .dead_after = seconds(3), .away_limit = seconds(30)};
  NodeLiveness node(kShort, /*has_workers=*/true, kStart);
  TimePoint now = kStart;
  std::vector<Duration> limits;
  for (bool lost = false; !lost;) {
    node.dialling(now);
    limits.push_back(node.connect_limit());
    now += limits.back();
    const NodeLiveness::Verdict verdict = node.disconnected(Cause::Silent, now);
    lost = verdict.lost;
    now += verdict.dial_in;
  }
  EXPECT_EQ(limits, (std::vector<Duration>{milliseconds(525), milliseconds(1050),
                                           milliseconds(3000 - 525 - 5 - 1050 - 5)}));

  node.connected(now);
  EXPECT_EQ(node.connect_limit(), milliseconds(525));
}

}  // namespace
}  // namespace train
