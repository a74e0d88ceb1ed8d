// Workers that stay when a run has ended well, and a run that begins with them.
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

constexpr Attempt kKept{4}, kAfterIt{5};

RunStart keeping() { return {.checkpoint = {}, .expected_nodes = 2, .keeps_workers = true}; }
/// Of a run that takes over attempt 4's workers, one on each node.
RunStart after_them(std::string differs = "") {
  RunStart start = keeping();
  start.first_attempt = kKept;
  start.placed = both();
  start.kept = KeptWorkersOf{kKept, both(), std::move(differs)};
  return start;
}
std::vector<Release> releases(const Actions& actions) { return only<Release>(actions); }
std::vector<std::string> notes(const Actions& actions) {
  std::vector<std::string> texts;
  for (const Note& note : only<Note>(actions)) texts.push_back(note.text);
  return texts;
}

SupervisorAttached tells(NodeId node, bool they_wait = true) {
  SupervisorAttached event{kKept, node, /*has_workers=*/!they_wait};
  event.kept = they_wait;
  return event;
}
/// Both nodes are up, and the workers wait there.
void all_wait(Driven& d) {
  d.handle(node_up(kNodeA, {kKept}));
  d.handle(tells(kNodeA));
  d.handle(node_up(kNodeB, {kKept}));
  d.handle(tells(kNodeB));
}

/// Let both ranks end well. Return what follows from the last node's end.
Actions end_of(Driven& d, bool a_stays, bool b_stays) {
  d.handle(RankExited{kFirst, Rank{0}, exited(0)});
  d.handle(RankExited{kFirst, Rank{1}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA, a_stays});
  return d.handle(NodeGroupGone{kFirst, kNodeB, b_stays});
}

TEST(KeptWorkers, StayOnAllNodesOrOnNone) {
  for (const bool both_stay : {true, false}) {
    Driven d(two_workers(), keeping());
    d.running();

    const Actions actions = end_of(d, true, both_stay);

    EXPECT_EQ(releases(actions),
              (std::vector<Release>{{kFirst, kNodeA, both_stay}, {kFirst, kNodeB, both_stay}}));
    ASSERT_EQ(only<RunEnded>(actions).size(), 1u);
    EXPECT_EQ(only<RunEnded>(actions).front().workers_stay, both_stay);
  }
}

TEST(KeptWorkers, AreNotKeptByARunThatDoesNotWantThem) {
  Driven d;
  d.running();
  const Actions actions = end_of(d, true, true);
  EXPECT_EQ(releases(actions),
            (std::vector<Release>{{kFirst, kNodeA, false}, {kFirst, kNodeB, false}}));
  EXPECT_FALSE(only<RunEnded>(actions).front().workers_stay);
}

TEST(KeptWorkers, AreNotKeptAfterAFailureOrAStopFromOutside) {
  Driven failed(two_workers(), keeping());
  failed.running();
  failed.handle(RankExited{kFirst, Rank{1}, exited(3)});
  failed.handle(RankExited{kFirst, Rank{0}, exited(0)});
  failed.handle(NodeGroupGone{kFirst, kNodeB});
  EXPECT_EQ(releases(failed.handle(NodeGroupGone{kFirst, kNodeA, true})),
            (std::vector<Release>{{kFirst, kNodeA, false}, {kFirst, kNodeB, false}}));

  Driven stopped(two_workers(), keeping());
  stopped.running();
  stopped.handle(StopAsked{StopKind::Terminate, "SIGTERM"});
  EXPECT_EQ(releases(end_of(stopped, true, true)),
            (std::vector<Release>{{kFirst, kNodeA, false}, {kFirst, kNodeB, false}}));
}

TEST(KeptWorkers, TheNextRunBeginsWithThemUnderTheirNumber) {
  Driven d(two_workers(), after_them());
  EXPECT_TRUE(releases(d.handle(node_up(kNodeA, {kKept}))).empty());
  EXPECT_TRUE(d.handle(tells(kNodeA)).empty());
  EXPECT_TRUE(d.handle(node_up(kNodeB, {kKept})).empty());  // it is listed, and may be busy

  const Actions actions = d.handle(tells(kNodeB));

  const auto prepares = only<Prepare>(actions);
  ASSERT_EQ(prepares.size(), 2u);
  EXPECT_EQ(prepares[0].attempt, kKept);
  EXPECT_EQ(prepares[1].attempt, kKept);
  EXPECT_TRUE(releases(actions).empty());
  d.started(kKept);
  EXPECT_EQ(d.run.state(), RunState::Running);
}

TEST(KeptWorkers, IfOneHasEndedAllAreStartedAnew) {
  Driven d(two_workers(), after_them());
  d.handle(node_up(kNodeA, {kKept}));
  d.handle(tells(kNodeA));

  const Actions actions = d.handle(node_up(kNodeB));

  EXPECT_EQ(releases(actions), (std::vector<Release>{{kKept, kNodeA, false}}));
  EXPECT_EQ(only<Prepare>(actions).front().attempt, kAfterIt);
  EXPECT_EQ(notes(actions), (std::vector<std::string>{
                                "the workers of the run before are not used, but new ones: some of "
                                "them have ended"}));
}

TEST(KeptWorkers, OneThatIsLostBeforeTheRunBeginsIsNotCountedOn) {
  RunStart start = after_them();
  start.sets_up = true;
  Driven d(two_workers(), start);
  all_wait(d);
  d.handle(SupervisorLost{kKept, kNodeB, "killed by signal 9"});

  const Actions actions = d.handle(RunSetUp{});

  EXPECT_EQ(releases(actions), (std::vector<Release>{{kKept, kNodeA, false}}));
  EXPECT_EQ(only<Prepare>(actions).front().attempt, kAfterIt);
}

TEST(KeptWorkers, OfAnotherJobAreEnded) {
  Driven d(two_workers(), after_them("they are of a job with another command"));
  // At once, whatever else the run waits for.
  EXPECT_EQ(releases(d.handle(node_up(kNodeA, {kKept}))),
            (std::vector<Release>{{kKept, kNodeA, false}}));
  const Actions actions = d.handle(node_up(kNodeB, {kKept}));
  EXPECT_EQ(releases(actions), (std::vector<Release>{{kKept, kNodeB, false}}));
  EXPECT_EQ(only<Prepare>(actions).front().attempt, kAfterIt);
  EXPECT_EQ(notes(actions), (std::vector<std::string>{
                                "the workers of the run before are not used, but new ones: they "
                                "are of a job with another command"}));
}

TEST(KeptWorkers, ThatAreGoneWhenTheyAreAskedForCountAsNoFailure) {
  Driven d(two_workers(/*max_failures=*/0), after_them());
  all_wait(d);
  d.handle(SupervisorLost{kKept, kNodeB, "it has ended"});

  const Actions actions = d.handle(NodeGroupGone{kKept, kNodeA});

  ASSERT_EQ(only<Prepare>(actions).size(), 2u);
  EXPECT_EQ(only<Prepare>(actions).front().attempt, kAfterIt);
}

TEST(KeptWorkers, AFailureAfterTheyHaveStartedCounts) {
  Driven d(two_workers(/*max_failures=*/0), after_them());
  all_wait(d);
  d.started(kKept);
  d.handle(RankExited{kKept, Rank{1}, exited(3)});
  d.handle(NodeGroupGone{kKept, kNodeB});
  d.handle(RankExited{kKept, Rank{0}, killed(SIGTERM, true)});
  d.handle(NodeGroupGone{kKept, kNodeA});
  EXPECT_EQ(d.run.state(), RunState::Errored);
}

// Its supervisor may be stopped, or still tell of the run before: that must not become this one's.
TEST(KeptWorkers, WhoseSupervisorDoesNotTellOfThemAreNotUsed) {
  Driven silent(two_workers(), after_them());
  silent.handle(node_up(kNodeA, {kKept}));
  silent.handle(tells(kNodeA));
  silent.handle(node_up(kNodeB, {kKept}));
  EXPECT_EQ(silent.run.next_deadline(), kStart + kKeptToldWithin);
  const Actions late = silent.handle(Tick{}, kKeptToldWithin);
  EXPECT_EQ(releases(late), (std::vector<Release>{{kKept, kNodeA, false}, {kKept, kNodeB, false}}));
  EXPECT_EQ(only<Prepare>(late).front().attempt, kAfterIt);

  Driven busy(two_workers(), after_them());
  busy.handle(node_up(kNodeA, {kKept}));
  busy.handle(tells(kNodeA));
  busy.handle(node_up(kNodeB, {kKept}));
  const Actions actions = busy.handle(tells(kNodeB, /*they_wait=*/false));
  EXPECT_EQ(only<Prepare>(actions).front().attempt, kAfterIt);
  busy.handle(RankExited{kKept, Rank{0}, exited(0)});
  busy.handle(RankExited{kKept, Rank{1}, exited(0)});
  busy.handle(NodeGroupGone{kKept, kNodeB, true});
  EXPECT_EQ(busy.run.state(), RunState::Preparing);
}

TEST(KeptWorkers, OfWhichAnotherRunHasLeftALaterAttemptAreNotUsed) {
  Driven d(two_workers(), after_them());
  d.handle(node_up(kNodeA, {kKept, kAfterIt}));
  d.handle(tells(kNodeA));
  d.handle(node_up(kNodeB, {kKept}));
  const Actions actions = d.handle(tells(kNodeB));
  EXPECT_EQ(only<Prepare>(actions).front().attempt, Attempt{6});
}

TEST(KeptGroup, IsNotUsedInAnotherPlace) {
  KeptGroup kept(KeptWorkersOf{kKept, both(), ""});
  for (const NodeId node : {kNodeA, kNodeB}) {
    kept.node_lists(node, true, kStart);
    EXPECT_TRUE(kept.waits(kStart));
    kept.supervisor_tells(node, true);
  }
  EXPECT_TRUE(kept.open(kKept));
  EXPECT_FALSE(kept.waits(kStart));
  Placement elsewhere = both();
  elsewhere.nodes[1].node = kNodeC;

  const auto decision = kept.decide(elsewhere, kKept);

  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->attempt, kAfterIt);
  EXPECT_EQ(decision->why_not, "the run has room on other nodes");
  EXPECT_EQ(decision->useless_on, (std::set<NodeId>{kNodeA, kNodeB}));
  EXPECT_FALSE(kept.open(kKept));
  EXPECT_FALSE(kept.used_by(kKept));
  EXPECT_FALSE(kept.decide(elsewhere, kKept));
}

}  // namespace
}  // namespace train
