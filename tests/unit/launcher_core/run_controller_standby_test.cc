#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

constexpr Attempt kThird{2};

JobSpec with_standbys(int count, int max_failures = 3) {
  JobSpec spec = two_workers(max_failures);
  spec.scaling_config.standby_workers = count;
  return spec;
}
Prepare standby_on(NodeId node, Attempt attempt = kSecond) {
  const PlacedNode placed = node == kNodeA ? on_a() : on_b();
  return {attempt, placed, /*bind_master=*/false, /*standby=*/true};
}
Prepare begins_on(const PlacedNode& placed) {
  return {kSecond, placed, placed.node_rank == NodeRank{0}};
}

/// The first attempt has reported from both nodes. `asked` holds the last orders.
struct Standing {
  explicit Standing(int count = 2) : d(with_standbys(count)) {
    d.running(/*reporting=*/false);
    d.handle(RankJoined{kFirst, Rank{0}});
    d.handle(RankReported{kFirst, Rank{0}, 1});
    asked = only<Prepare>(d.handle(RankJoined{kFirst, Rank{1}}));
  }
  /// Let rank 1 fail, tear everything down, and order the second attempt.
  Actions second_attempt() {
    d.handle(RankExited{kFirst, Rank{1}, exited(3)});
    d.handle(NodeGroupGone{kFirst, kNodeB});
    d.handle(RankExited{kFirst, Rank{0}, killed(SIGTERM, true)});
    return d.handle(NodeGroupGone{kFirst, kNodeA});
  }
  Driven d;
  std::vector<Prepare> asked;
};

TEST(RunControllerStandby, IsAskedForOnceAllRanksHaveJoinedAndOneHasReported) {
  Driven d(with_standbys(2));
  d.running(/*reporting=*/false);

  EXPECT_EQ(only<Prepare>(d.handle(RankJoined{kFirst, Rank{0}})), std::vector<Prepare>{});
  EXPECT_EQ(only<Prepare>(d.handle(RankReported{kFirst, Rank{0}, 1})), std::vector<Prepare>{});
  EXPECT_EQ(only<Prepare>(d.handle(RankJoined{kFirst, Rank{1}})),
            (std::vector<Prepare>{standby_on(kNodeA), standby_on(kNodeB)}));
  EXPECT_EQ(only<Prepare>(d.handle(RankReported{kFirst, Rank{1}, 1})), std::vector<Prepare>{});
}

TEST(RunControllerStandby, IsAskedForAMomentAfterAllHaveJoinedWhereReportsAreRare) {
  Driven d(with_standbys(1));
  d.running(/*reporting=*/false);
  d.handle(RankJoined{kFirst, Rank{0}}, seconds(1));
  d.handle(RankJoined{kFirst, Rank{1}}, seconds(2));
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(2) + kStandbyDelay);

  EXPECT_EQ(d.handle(Tick{}, seconds(2) + kStandbyDelay), Actions{standby_on(kNodeA)});

  EXPECT_EQ(d.run.next_deadline(), std::nullopt);
}

TEST(RunControllerStandby, FollowsTheRanksOverTheNodes) {
  Standing three(3);

  const auto on_node_a = only<StandBy>(three.d.handle(SupervisorAttached{kSecond, kNodeA}));
  const auto on_node_b = only<StandBy>(three.d.handle(SupervisorAttached{kSecond, kNodeB}));

  EXPECT_EQ(on_node_a, (std::vector<StandBy>{{kSecond, kNodeA, 2}}));
  EXPECT_EQ(on_node_b, (std::vector<StandBy>{{kSecond, kNodeB, 1}}));
}

TEST(RunControllerStandby, TheNextAttemptBeginsWithThem) {
  Standing s;
  s.d.handle(SupervisorAttached{kSecond, kNodeA});
  s.d.handle(SupervisorAttached{kSecond, kNodeB});

  const auto actions = s.second_attempt();

  EXPECT_EQ(only<Prepare>(actions), (std::vector<Prepare>{begins_on(on_a()), begins_on(on_b())}));
  EXPECT_EQ(only<Release>(actions), (std::vector<Release>{{kFirst, kNodeA}, {kFirst, kNodeB}}));
  s.d.handle(AttemptPrepared{kSecond, kNodeA, 41000});
  s.d.handle(AttemptPrepared{kSecond, kNodeB, 0});
  s.d.handle(AttemptStarted{kSecond, kNodeA, {{Rank{0}, 100}}, 1});
  s.d.handle(AttemptStarted{kSecond, kNodeA, {{Rank{0}, 100}}, 1});  // resent
  s.d.handle(AttemptStarted{kSecond, kNodeB, {{Rank{1}, 100}}, 1});
  EXPECT_EQ(s.d.run.from_standby(), 2);
}

TEST(RunControllerStandby, ASupervisorThatAnswersTooLateBeginsLikeAnyOther) {
  Standing s;
  s.second_attempt();

  const auto actions = s.d.handle(SupervisorAttached{kSecond, kNodeA, /*has_workers=*/false});

  EXPECT_EQ(only<Prepare>(actions), std::vector<Prepare>{begins_on(on_a())});
  EXPECT_EQ(only<StandBy>(actions), std::vector<StandBy>{});
}

TEST(RunControllerStandby, WhatALinkLostIsAskedForAgain) {
  Standing s;

  EXPECT_EQ(s.d.handle(node_up(kNodeA, {kFirst, kSecond})), Actions{});
  EXPECT_EQ(s.d.handle(node_up(kNodeA, {kFirst})), Actions{standby_on(kNodeA)});
}

TEST(RunControllerStandby, OneThatDiesIsNeitherAFailureNorReplaced) {
  Standing s;

  EXPECT_EQ(s.d.handle(SupervisorLost{kSecond, kNodeA, "killed by signal 9", /*standby=*/true}),
            Actions{});

  EXPECT_EQ(s.d.handle(node_up(kNodeA, {kFirst})), Actions{});
  EXPECT_EQ(s.d.run.state(), RunState::Running);
}

TEST(RunControllerStandby, TheNewsOfItsEndDoesNotFailTheAttemptThatHasBegunMeanwhile) {
  Standing s;
  s.second_attempt();

  EXPECT_EQ(s.d.handle(SupervisorLost{kSecond, kNodeA, "killed by signal 9", /*standby=*/true}),
            Actions{});
  EXPECT_EQ(s.d.run.state(), RunState::Preparing);
}

TEST(RunControllerStandby, ThoseOfANodeThatIsDrainedAreReleased) {
  Standing s;

  const auto actions = s.d.handle(NodeDrain{kNodeB, seconds(60), "SIGTERM"});

  EXPECT_EQ(only<Release>(actions), (std::vector<Release>{{kSecond, kNodeB}}));
}

TEST(RunControllerStandby, ThoseThatTheNextAttemptHasNoUseForAreReleased) {
  Standing s;
  s.d.handle(node_up(kNodeC));
  s.d.handle(NodeDown{kNodeB, "it was silent for 10 s"});
  s.d.handle(RankExited{kFirst, Rank{0}, killed(SIGTERM, true)});
  const auto actions = s.d.handle(NodeGroupGone{kFirst, kNodeA});
  EXPECT_EQ(only<AttemptBegun>(actions).size(), 1u);

  // The node comes back with the attempts that it was asked to prepare.
  const auto back = s.d.handle(node_up(kNodeB, {kFirst, kSecond}));

  EXPECT_EQ(only<Release>(back), (std::vector<Release>{{kFirst, kNodeB}, {kSecond, kNodeB}}));
}

TEST(RunControllerStandby, TheEndOfTheRunReleasesThem) {
  Standing s;
  s.d.handle(RankExited{kFirst, Rank{0}, exited(0)});
  s.d.handle(RankExited{kFirst, Rank{1}, exited(0)});
  s.d.handle(NodeGroupGone{kFirst, kNodeA});

  const auto actions = s.d.handle(NodeGroupGone{kFirst, kNodeB});

  EXPECT_EQ(s.d.run.state(), RunState::Finished);
  EXPECT_EQ(only<Release>(actions),
            (std::vector<Release>{
                {kFirst, kNodeA}, {kFirst, kNodeB}, {kSecond, kNodeA}, {kSecond, kNodeB}}));
}

TEST(RunControllerStandby, ThoseOfAnEarlierLauncherAreReleasedAndTheirNumberIsTaken) {
  Standing s;

  const auto actions = s.d.handle(node_up(kNodeA, {kFirst, kSecond, kThird}));

  // Somebody else used the third number, so the second's standbys do not fit the next attempt.
  EXPECT_EQ(only<Release>(actions),
            (std::vector<Release>{{kThird, kNodeA}, {kSecond, kNodeA}, {kSecond, kNodeB}}));
}

TEST(RunControllerStandby, AProgramWithoutTheSdkGetsNoneAndTheUserIsToldAtTheEnd) {
  Driven d(with_standbys(2));
  d.running(/*reporting=*/false);
  d.handle(RankExited{kFirst, Rank{0}, exited(0)});
  d.handle(RankExited{kFirst, Rank{1}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});

  const auto notes = only<Note>(d.handle(NodeGroupGone{kFirst, kNodeB}));

  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].text,
            "standby_workers had no effect: only programs that use the SDK can wait for a rank, "
            "and no worker has called it");
}

}  // namespace
}  // namespace train
