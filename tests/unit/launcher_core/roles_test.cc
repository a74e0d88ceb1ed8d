// Roles beside the one that trains: where their workers go, what their ends do to the attempt, and
// what the journal keeps of them.
#include "launcher/core/placed_ranks.h"
#include "launcher/core/run_history.h"
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

RoleSpec role(const char* name, int workers, double cpu = 1, double gpu = 0) {
  return {.name = name,
          .command = {"./other"},
          .workers = workers,
          .resources_per_worker = {.cpu = cpu, .gpu = gpu, .custom = {}}};
}
ScalingConfig trainers(int min, int max, std::vector<RoleSpec> others) {
  ScalingConfig scaling;
  scaling.num_workers = {min, max};
  scaling.role = "trainer";
  scaling.other_roles = std::move(others);
  return scaling;
}
NodeCapacity node(int id, double cpu, double gpu = 0, Labels labels = {}) {
  const Resources has{.cpu = cpu, .gpu = gpu, .custom = {}};
  NodeCapacity capacity{NodeId{id}, "node-" + std::to_string(id), has, has};
  capacity.labels = std::move(labels);
  return capacity;
}
Placement place_on(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes,
                   const Placement& before = {}) {
  return place(scaling, nodes, nodes.size(), before);
}

TEST(PlacesRoles, OnTheNodesOfThoseThatTrainInTurnAndTheirRanksFollow) {
  const Placement placed =
      place_on(trainers(5, 5, {role("reader", 3), role("evaluator", 1)}), {node(0, 5), node(1, 4)});

  EXPECT_EQ(placed.world_size, 5);
  EXPECT_EQ(workers_of_all_roles(placed), 9);
  ASSERT_EQ(placed.nodes.size(), 2u);  // all of the first one's cores are taken
  EXPECT_EQ(placed.nodes[0], (PlacedNode{NodeId{0}, NodeRank{0}, Rank{0}, 5, {}}));
  EXPECT_EQ(placed.nodes[1],
            (PlacedNode{NodeId{1}, NodeRank{1}, Rank{5}, 0, {{1, Rank{5}, 3}, {2, Rank{8}, 1}}}));
}

TEST(PlacesRoles, EachNodeOfThoseThatTrainHasItsShare) {
  ScalingConfig scaling = trainers(4, 4, {role("reader", 3)});
  scaling.placement_strategy = PlacementStrategy::Spread;
  const Placement placed = place_on(scaling, {node(0, 4), node(1, 4), node(2, 4)});

  std::vector<PlacedRole> readers;
  for (const PlacedNode& at : placed.nodes) readers.push_back(at.others.at(0));
  EXPECT_EQ(readers, (std::vector<PlacedRole>{{1, Rank{4}, 1}, {1, Rank{5}, 1}, {1, Rank{6}, 1}}));
}

TEST(PlacesRoles, WorkersHaveARankAmongAllAndOneInTheirRole) {
  const Placement placed =
      place_on(trainers(2, 2, {role("reader", 2, 0)}), {node(0, 1), node(1, 1)});

  const auto on_second = ranks_on(placed.nodes[1], placed);
  ASSERT_EQ(on_second.size(), 2u);
  EXPECT_EQ(on_second[0], (WorkerRanks{.world_size = 4,
                                       .rank = 1,
                                       .local_rank = 0,
                                       .local_world_size = 2,
                                       .node_rank = 1,
                                       .node_count = 2,
                                       .role = 0,
                                       .role_world_size = 2,
                                       .role_rank = 1,
                                       .role_local_rank = 0,
                                       .role_local_world_size = 1}));
  EXPECT_EQ(on_second[1], (WorkerRanks{.world_size = 4,
                                       .rank = 3,
                                       .local_rank = 1,
                                       .local_world_size = 2,
                                       .node_rank = 1,
                                       .node_count = 2,
                                       .role = 1,
                                       .role_world_size = 2,
                                       .role_rank = 1,
                                       .role_local_rank = 0,
                                       .role_local_world_size = 1}));
  EXPECT_EQ(on_second[1].in_role().rank, 1);
  EXPECT_EQ(on_second[1].in_role().world_size, 2);
  EXPECT_EQ(on_second[1].in_role().local_world_size, 1);
  const ScalingConfig scaling = trainers(2, 2, {role("reader", 2, 0)});
  EXPECT_EQ(role_text(scaling, placed, Rank{3}), "reader 1");
  EXPECT_EQ(role_text(scaling, placed, Rank{1}), "trainer 1");
  EXPECT_EQ(others_text(scaling), " and 2 of role reader");
}

TEST(PlacesRoles, ElasticTrainersMakeRoomForThem) {
  const Placement placed = place_on(trainers(1, 4, {role("reader", 2)}), {node(0, 4)});
  EXPECT_EQ(placed.world_size, 2);
  EXPECT_EQ(workers_of_all_roles(placed), 4);
}

TEST(PlacesRoles, WithTheirOwnGpusAndLabels) {
  RoleSpec actor = role("actor", 2, 1, 1);
  actor.label_selector = {{"kind", "b"}};
  ScalingConfig scaling = trainers(2, 2, {actor});
  scaling.use_gpu = true;
  scaling.resources_per_worker.gpu = 0.5;

  const Placement placed =
      place_on(scaling, {node(0, 8, 1, {{"kind", "a"}}), node(1, 8, 2, {{"kind", "b"}})});

  ASSERT_EQ(placed.nodes.size(), 2u);  // two that share a GPU leave none on the first
  EXPECT_EQ(placed.nodes[0].others, std::vector<PlacedRole>{});
  EXPECT_EQ(placed.nodes[1].others, (std::vector<PlacedRole>{{1, Rank{2}, 2}}));
}

TEST(PlacesRoles, StrictPackKeepsAllOnOneNode) {
  ScalingConfig scaling = trainers(2, 2, {role("reader", 2)});
  scaling.placement_strategy = PlacementStrategy::StrictPack;
  EXPECT_EQ(place_on(scaling, {node(0, 3), node(1, 3)}).world_size, 0);
  EXPECT_EQ(place_on(scaling, {node(0, 4), node(1, 3)}).nodes.size(), 1u);
  EXPECT_EQ(place_on(scaling, {node(0, 3), node(1, 4)}).nodes.at(0).node, NodeId{1});
  EXPECT_TRUE(place_on(scaling, {node(0, 3), node(1, 3)}).never);
}

TEST(PlacesRoles, BeforeThoseThatTrainWhereTheseWouldBeInTheirWay) {
  // Both that train would fill the first node.
  const Placement large =
      place_on(trainers(2, 2, {role("reader", 2, 2)}), {node(0, 3), node(1, 3)});
  EXPECT_EQ(workers_of_all_roles(large), 4);
  ASSERT_EQ(large.nodes.size(), 2u);
  EXPECT_EQ(large.nodes[0].local_world_size, 1);

  // They would take the only GPUs that the actors may have.
  RoleSpec actor = role("actor", 1, 1, 2);
  actor.label_selector = {{"kind", "b"}};
  ScalingConfig scaling = trainers(2, 2, {actor});
  scaling.use_gpu = true;
  scaling.resources_per_worker.gpu = 1;
  const Placement labelled = place_on(scaling, {node(0, 8, 2, {{"kind", "b"}}), node(1, 8, 2)});
  ASSERT_EQ(labelled.nodes.size(), 2u);
  EXPECT_EQ(labelled.nodes[0].node, NodeId{1});
  EXPECT_EQ(labelled.nodes[1].others, (std::vector<PlacedRole>{{1, Rank{2}, 1}}));
}

TEST(PlacesRoles, WhereTheyWereBeforeDoesNotMakeThemFewer) {
  RoleSpec on_b = role("zb", 1);
  on_b.label_selector = {{"zone", "b"}};
  ScalingConfig scaling = trainers(3, 3, {role("any", 1), on_b});
  scaling.resources_per_worker.cpu = 4;
  const std::vector<NodeCapacity> nodes{node(0, 8), node(1, 8, 0, {{"zone", "b"}})};
  const Placement before = place_on(scaling, {node(2, 8), nodes[1]});
  ASSERT_EQ(before.world_size, 3);

  EXPECT_EQ(place_on(scaling, nodes, before).world_size, place_on(scaling, nodes).world_size);
  EXPECT_EQ(place_on(scaling, nodes).world_size, 3);
}

TEST(PlacesRoles, AreSaidToFitNeverOnlyIfThatIsCertain) {
  const auto never = [](const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes) {
    const Placement placed = place_on(scaling, nodes);
    EXPECT_EQ(placed.world_size, 0);
    return placed.never;
  };
  EXPECT_TRUE(never(trainers(2, 2, {role("reader", 2, 2)}), {node(0, 5)}));  // all together
  EXPECT_TRUE(never(trainers(1, 1, {role("reader", 1, 3)}), {node(0, 2), node(1, 2)}));  // alone
  // Nobody has tried all ways.
  EXPECT_FALSE(never(trainers(1, 1, {role("a", 2, 3), role("b", 1, 2)}),
                     {node(0, 4), node(1, 4), node(2, 1)}));
}

TEST(PlacesRoles, SayWhatIsMissingAndWhetherItMayCome) {
  const ScalingConfig scaling = trainers(2, 2, {role("reader", 3, 2)});
  std::vector<NodeCapacity> nodes{node(0, 4), node(1, 8)};
  nodes[1].free.cpu = 1;
  const Placement waits = place_on(scaling, nodes);
  EXPECT_EQ(waits.reason,
            "3 workers of role reader with CPU 2 each are needed beside 2 of role trainer, which "
            "leave: node-0 CPU 2, memory 0 MiB; node-1 CPU 1, memory 0 MiB");
  EXPECT_FALSE(waits.never);
  EXPECT_TRUE(place_on(scaling, {node(0, 4)}).never);
}

TEST(PlacesRoles, ThousandsOnFullNodesAreFoundQuickly) {
  std::vector<NodeCapacity> nodes;
  for (int id = 0; id < 10'000; ++id) nodes.push_back(node(id, id < 5'000 ? 1 : 2));
  const Placement placed = place_on(trainers(5'000, 5'000, {role("reader", 10'000)}), nodes);
  EXPECT_EQ(workers_of_all_roles(placed), 15'000);
}

// ---- in an attempt

constexpr Rank kReader{2};

/// Two workers that train, and one of another role, on node b.
struct WithReader : Driven {
  static JobSpec spec(int max_failures) {
    JobSpec spec = two_workers(max_failures);
    spec.scaling_config.role = "trainer";
    RoleSpec reader = role("reader", 1, 3);
    spec.scaling_config.other_roles = {reader};
    spec.scaling_config.resources_per_worker.cpu = 1;
    spec.run_config.failure_config.stop_grace = seconds(20);
    return spec;
  }
  explicit WithReader(int max_failures = 0,
                      RunStart start = {.checkpoint = {}, .expected_nodes = 2})
      : Driven(spec(max_failures), std::move(start)) {}
  WithReader& run_all() {
    nodes();
    prepared(kFirst);
    handle(AttemptStarted{kFirst, kNodeA, {{Rank{0}, 100}, {kReader, 102}}});
    handle(AttemptStarted{kFirst, kNodeB, {{Rank{1}, 101}}});
    for (const int rank : {0, 1}) {
      handle(RankJoined{kFirst, Rank{rank}});
      handle(RankReported{kFirst, Rank{rank}, 1});
    }
    return *this;
  }
  Actions ends(Rank rank, WorkerEnd end) { return handle(RankExited{kFirst, rank, end}); }
};

TEST(ControllerRoles, AreToldToEndOnceAllThatTrainHaveEnded) {
  WithReader t;
  t.run_all();
  ASSERT_EQ(t.run.state(), RunState::Running);
  EXPECT_EQ(t.run.world_size(), 2);
  EXPECT_EQ(t.run.workers(), 3);

  EXPECT_TRUE(only<StopGroup>(t.ends(Rank{0}, exited(0))).empty());
  const auto stops = only<StopGroup>(t.ends(Rank{1}, exited(0)));

  ASSERT_EQ(stops.size(), 2u);
  EXPECT_EQ(stops[0],
            (StopGroup{kFirst, kNodeA, seconds(20), "all workers of role trainer have ended"}));
  EXPECT_EQ(t.run.state(), RunState::TearingDown);
  t.ends(kReader, killed(SIGTERM, true));
  t.handle(NodeGroupGone{kFirst, kNodeA});
  const auto ended = only<RunEnded>(t.handle(NodeGroupGone{kFirst, kNodeB}));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, RunState::Finished);
}

TEST(ControllerRoles, OneThatHasEndedWellBeforeIsMissedByNobody) {
  WithReader t;
  t.run_all();
  EXPECT_TRUE(
      only<SendCollective>(t.handle(CollectiveJoined{kFirst, Rank{0}, 1, "b", "x"})).empty());
  EXPECT_TRUE(t.ends(kReader, exited(0)).empty());
  EXPECT_EQ(t.run.state(), RunState::Running);
  const auto sent = only<SendCollective>(t.handle(CollectiveJoined{kFirst, Rank{1}, 1, "b", "y"}));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].error, "");

  t.ends(Rank{0}, exited(0));
  EXPECT_TRUE(only<StopGroup>(t.ends(Rank{1}, exited(0))).empty());  // nobody is left
}

TEST(ControllerRoles, AFailureOfOneRestartsAll) {
  WithReader t(/*max_failures=*/1);
  t.run_all();

  const auto stops = only<StopGroup>(t.ends(kReader, killed(SIGKILL)));

  EXPECT_EQ(stops.size(), 2u);
  for (const int rank : {0, 1}) t.ends(Rank{rank}, killed(SIGTERM, true));
  t.handle(NodeGroupGone{kFirst, kNodeA});
  const Actions actions = t.handle(NodeGroupGone{kFirst, kNodeB});
  ASSERT_EQ(only<AttemptEnded>(actions).size(), 1u);
  EXPECT_EQ(only<AttemptEnded>(actions)[0].root_rank, kReader);
  EXPECT_EQ(t.run.state(), RunState::Preparing);  // the next one, at once
}

TEST(ControllerRoles, WhatTheySendOfTrainingHasNoEffect) {
  WithReader t;
  t.run_all();
  EXPECT_TRUE(t.handle(RankReported{kFirst, kReader, 5}).empty());
  EXPECT_TRUE(t.handle(RankPaused{kFirst, kReader, 5, 1, true}).empty());
  EXPECT_TRUE(
      only<SendCollective>(t.handle(CollectiveJoined{kFirst, kReader, 1, "b", "x"})).empty());
  EXPECT_TRUE(t.handle(staged(kFirst, kReader.value, 1)).empty());
  EXPECT_EQ(t.run.state(), RunState::Running);
}

TEST(ControllerRoles, AStopWaitsForNoReportOfTheirsAndEndsThemByItsTime) {
  WithReader t;
  t.run_all();
  t.handle(StopAsked{.reason = "asked"});
  ASSERT_EQ(t.run.state(), RunState::Pausing);
  for (const int rank : {0, 1}) t.handle(RankPaused{kFirst, Rank{rank}, 1, 0, false});
  for (const int rank : {0, 1}) t.handle(RankPaused{kFirst, Rank{rank}, 1, 0, true});
  t.ends(Rank{0}, left_when_told());
  const auto stops = only<StopGroup>(t.ends(Rank{1}, left_when_told()));

  ASSERT_EQ(stops.size(), 2u);
  EXPECT_LT(stops[0].grace, seconds(20));
  EXPECT_GE(stops[0].grace, kSurvivorGrace);
}

/// Return the attempt that a launcher finds in a journal with this record of its beginning.
std::optional<LivingAttempt> living_in(const boost::json::object& begun) {
  RunHistory history{FailureConfig{}};
  history.add(Generation{1}, "t", begun);
  history.add(
      Generation{1}, "t",
      record_of(changed(RunState::Preparing, RunState::Starting, RunTrigger::AllPrepared, kFirst)));
  return history.living();
}

/// Those that train fill node a; the reader is alone on node b. Training has ended well.
struct Served : Driven {
  static JobSpec spec() {
    JobSpec spec = WithReader::spec(0);
    spec.scaling_config.placement_strategy = PlacementStrategy::Pack;
    spec.scaling_config.resources_per_worker.cpu = 2;
    return spec;
  }
  Served() : Driven(spec()) {
    nodes();
    prepared(kFirst);
    handle(AttemptStarted{kFirst, kNodeA, {{Rank{0}, 100}, {Rank{1}, 101}}});
    handle(AttemptStarted{kFirst, kNodeB, {{kReader, 102}}});
    for (const int rank : {0, 1}) {
      handle(RankJoined{kFirst, Rank{rank}});
      handle(RankReported{kFirst, Rank{rank}, 1});
      handle(RankExited{kFirst, Rank{rank}, exited(0)});
    }
    handle(NodeGroupGone{kFirst, kNodeA});
    EXPECT_EQ(run.state(), RunState::TearingDown);
  }
};

TEST(ControllerRoles, ANodeThatIsLostOnceTrainingHasEndedIsNotMissed) {
  Served t;
  const auto ended = only<RunEnded>(t.handle(NodeDown{kNodeB, "no heartbeat"}));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, RunState::Finished);
}

TEST(ControllerRoles, AStopOnceTrainingHasEndedHurriesTheOthers) {
  Served t;
  const auto stops = only<StopGroup>(t.handle(StopAsked{.reason = "asked"}));
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].grace, Duration{0});
  t.handle(RankExited{kFirst, kReader, killed(SIGKILL, true)});
  const auto ended = only<RunEnded>(t.handle(NodeGroupGone{kFirst, kNodeB}));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, RunState::Finished);
}

TEST(ControllerRoles, AStopConditionThatIsHeardOfLateHurriesNobody) {
  Served t;
  EXPECT_TRUE(
      only<StopGroup>(t.handle(StopAsked{.kind = StopKind::StopCondition, .reason = "epoch is 3"}))
          .empty());
  t.handle(RankExited{kFirst, kReader, exited(0, true)});
  const auto ended = only<RunEnded>(t.handle(NodeGroupGone{kFirst, kNodeB}));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].stop, StopKind::StopCondition);
}

TEST(ControllerRoles, OneThatDiesAgainAndAgainIsAtNoPlaceOfTraining) {
  WithReader t(/*max_failures=*/-1);
  t.run_all();
  t.ends(kReader, killed(SIGKILL));
  for (const int rank : {0, 1}) t.ends(Rank{rank}, killed(SIGTERM, true));
  t.handle(NodeGroupGone{kFirst, kNodeA});
  const auto ended = only<AttemptEnded>(t.handle(NodeGroupGone{kFirst, kNodeB}));
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_TRUE(ended[0].failed);
  EXPECT_FALSE(ended[0].location.has_value());
}

TEST(ControllerRoles, ASpecWithFewerRolesFindsAnAttemptThatHasMore) {
  LivingAttempt living{
      .id = kFirst,
      .placement = place_on(WithReader::spec(0).scaling_config, {node(0, 4), node(1, 4)})};
  living.node_names = {"node-a", "node-b"};
  Driven driven(two_workers(), {.checkpoint = {}, .expected_nodes = 2, .living = living});
  driven.handle(node_up(kNodeA, {kFirst}));
  driven.handle(node_up(kNodeB, {kFirst}));
  for (const NodeId id : {kNodeA, kNodeB}) {
    SupervisorAttached attached{kFirst, id};
    attached.has_workers = true;
    attached.ranks = {{kReader, true, 7}};  // nobody of another role reports
    driven.handle(attached);
  }
  EXPECT_EQ(driven.run.state(), RunState::Running);
  EXPECT_EQ(driven.run.workers(), 3);
  EXPECT_EQ(role_text(two_workers().scaling_config, living.placement, kReader), "");
}

TEST(ControllerRoles, ANodeWithoutOneThatTrainsRestoresNothing) {
  JobSpec spec = WithReader::spec(0);
  spec.scaling_config.placement_strategy = PlacementStrategy::Pack;
  spec.scaling_config.resources_per_worker.cpu = 2;  // both that train fill a node
  Driven driven(spec, {.checkpoint = checkpoint(4), .expected_nodes = 2});
  driven.nodes();
  driven.handle(AttemptPrepared{kFirst, kNodeA, 41000});
  const auto starts = only<Start>(driven.handle(AttemptPrepared{kFirst, kNodeB, 0}));
  ASSERT_EQ(starts.size(), 2u);
  EXPECT_EQ(starts[0].placed.local_world_size, 2);
  EXPECT_TRUE(starts[0].restore.has_value());
  EXPECT_EQ(starts[1].placed.others.size(), 1u);
  EXPECT_FALSE(starts[1].restore.has_value());
}

TEST(ControllerRoles, TheJournalKeepsWhereTheyAre) {
  const ScalingConfig scaling = WithReader::spec(0).scaling_config;
  Placement placed = place_on(scaling, {node(0, 4), node(1, 4)});
  AttemptBegun begun{kFirst, placed, {"node-a", "node-b"}, {}, 0, {"trainer", "reader"}};

  const auto found = living_in(record_of(begun));

  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->placement, placed);
}

TEST(ControllerRoles, ADamagedJournalGivesNone) {
  AttemptBegun begun{kFirst,
                     place_on(WithReader::spec(0).scaling_config, {node(0, 4), node(1, 4)}),
                     {"node-a", "node-b"},
                     {},
                     0};
  for (const boost::json::value& value :
       {boost::json::value(0), boost::json::value(-1), boost::json::value(std::int64_t{1} << 62),
        boost::json::value("x")}) {
    boost::json::object record = record_of(begun);
    boost::json::object& at = record.at("nodes").as_array()[0].as_object();
    if (!at.contains("roles")) at = record.at("nodes").as_array()[1].as_object();
    at["roles"] = boost::json::array{boost::json::object{{"role", value}, {"workers", value}}};
    const auto found = living_in(record);
    ASSERT_TRUE(found.has_value());
    EXPECT_LE(workers_of_all_roles(found->placement), 3);
  }
}

TEST(ControllerRoles, AJournalWithAnImpossibleNumberOfWorkersGivesNoPlacement) {
  const AttemptBegun begun{kFirst,
                           place_on(WithReader::spec(0).scaling_config, {node(0, 4), node(1, 4)}),
                           {"node-a", "node-b"},
                           {},
                           0};
  for (const std::int64_t workers : {std::int64_t{-1}, std::int64_t{100'001}, std::int64_t{1} << 62,
                                     (std::int64_t{1} << 32) + 1}) {
    boost::json::object record = record_of(begun);
    record.at("nodes").as_array()[0].as_object()["workers"] = workers;

    EXPECT_FALSE(living_in(record).has_value()) << workers;
  }
}

}  // namespace
}  // namespace train
