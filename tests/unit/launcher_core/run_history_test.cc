// Folds the journal's records of the controller's actions, as a later launcher does.
#include "launcher/core/run_history.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using S = RunState;

/// Writes a journal as one launcher of `generation` does.
struct Journaled {
  explicit Journaled(int max_failures = 3) : history(failures(max_failures)) {}
  static FailureConfig failures(int max) {
    FailureConfig config;
    config.max_failures = max;
    return config;
  }
  void begin(Attempt attempt, int restarts = 0, std::optional<CheckpointInfo> restore = {}) {
    add(record_of(begun(attempt, both(), {"node-a", "node-b"}, restarts, std::move(restore))));
  }
  void state(S to, Attempt attempt = kFirst) {
    add(record_of(StateChanged{S::Scheduling, to, RunTrigger::AllPrepared, attempt, ""}));
  }
  void end(Attempt attempt, std::optional<FailureKind> failure = {},
           std::optional<FailureLocation> location = {}) {
    AttemptEnded ended{.attempt = attempt,
                       .cause = "",
                       .failed = failure.has_value(),
                       .failure = failure,
                       .root_rank = {},
                       .root_end = {},
                       .root_node = "",
                       .start_error = {},
                       .collateral = 0};
    ended.location = location;
    if (location) ended.node = location->node;
    add(record_of(ended, "rank 1 was killed"));
  }
  void add(const boost::json::object& record) { history.add(generation, "t", record); }

  Generation generation{1};
  RunHistory history;
};

TEST(RunHistory, AnEmptyJournalIsAFreshStart) {
  const Journaled journal;
  EXPECT_FALSE(journal.history.living());
  EXPECT_EQ(journal.history.next_attempt(), kFirst);
  EXPECT_EQ(journal.history.failures(), FailureMemory{});
}

TEST(RunHistory, AnAttemptWhoseWorkersWereToldToStartMayLive) {
  Journaled journal;
  journal.generation = Generation{3};
  journal.begin(kFirst, 2, checkpoint(7));
  EXPECT_FALSE(journal.history.living());
  journal.state(S::Starting);

  ASSERT_TRUE(journal.history.living());
  const LivingAttempt& living = *journal.history.living();
  EXPECT_EQ(living.id, kFirst);
  EXPECT_EQ(living.generation, Generation{3});
  EXPECT_EQ(living.placement, both());
  EXPECT_EQ(living.node_names, (std::vector<std::string>{"node-a", "node-b"}));
  EXPECT_EQ(living.restored, checkpoint(7));
  EXPECT_EQ(living.restart_count, 2);
  EXPECT_FALSE(living.pausing);
  EXPECT_EQ(journal.history.next_attempt(), kSecond);
}

TEST(RunHistory, KnowsThatTheRanksHadBeenAskedToStop) {
  Journaled journal;
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.state(S::Running);
  journal.state(S::Pausing);
  EXPECT_TRUE(journal.history.living()->pausing);
}

TEST(RunHistory, KnowsWhichStopConditionWasMet) {
  Journaled journal;
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.state(S::Running);
  EXPECT_FALSE(journal.history.living()->stop_condition);
  journal.add(record_of(StateChanged{.from = S::Running,
                                     .to = S::TearingDown,
                                     .trigger = RunTrigger::GroupEnding,
                                     .attempt = kFirst,
                                     .reason = "every rank ended with 0",
                                     .stop_condition = "loss is 0.1"}));
  EXPECT_EQ(journal.history.living()->stop_condition, "loss is 0.1");
}

TEST(RunHistory, TheStopConditionThatWasMetIsNotForgottenUnderALaterLauncher) {
  Journaled journal;
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.state(S::Running);
  StateChanged pausing{.from = S::Running,
                       .to = S::Pausing,
                       .trigger = RunTrigger::PauseAsked,
                       .attempt = kFirst,
                       .reason = "loss is 0.1",
                       .stop_condition = "loss is 0.1"};
  journal.add(record_of(pausing));
  pausing.from = S::Attaching;
  pausing.reason = "an earlier launcher had asked the ranks to stop";
  journal.add(record_of(pausing));
  EXPECT_EQ(journal.history.living()->stop_condition, "loss is 0.1");
}

TEST(RunHistory, KnowsThatTheWorkersWereBeingStopped) {
  Journaled journal;
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.state(S::Running);
  EXPECT_FALSE(journal.history.living()->ending);
  journal.state(S::TearingDown);
  EXPECT_TRUE(journal.history.living()->ending);
}

TEST(RunHistory, AnAttemptThatBeginsAgainFromANewerCheckpointIsOneAttempt) {
  Journaled journal;
  journal.begin(kFirst, 0, checkpoint(7));
  journal.begin(kFirst, 0, checkpoint(8));
  journal.state(S::Starting);

  EXPECT_EQ(journal.history.attempts().size(), 1U);
  EXPECT_EQ(journal.history.living()->restored, checkpoint(8));
}

TEST(RunHistory, AnAttemptThatEndedDoesNotLive) {
  Journaled journal;
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.end(kFirst, FailureKind::Worker);

  EXPECT_FALSE(journal.history.living());
  EXPECT_EQ(journal.history.failures().counts.failures, 1);
  ASSERT_EQ(journal.history.attempts().size(), 1U);
  EXPECT_TRUE(journal.history.attempts()[0].failed);
  EXPECT_EQ(journal.history.attempts()[0].cause, "rank 1 was killed");
}

TEST(RunHistory, ACheckpointRefillsTheBudgetsAndAnEndedRunDoesToo) {
  Journaled journal;
  journal.begin(kFirst);
  journal.end(kFirst, FailureKind::Worker);
  journal.add(checkpoint_record(kFirst, 1, 9, checkpoint(1)));
  EXPECT_EQ(journal.history.failures(), FailureMemory{});
  journal.begin(kSecond);
  journal.end(kSecond, FailureKind::Worker);
  journal.add(record_of(RunEnded{S::Errored, "no restart left", {}}));
  EXPECT_EQ(journal.history.failures(), FailureMemory{});
}

TEST(RunHistory, ACheckpointThatTheJournalDoesNotKnowRefillsTheBudgetsOnce) {
  Journaled journal;
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.end(kFirst, FailureKind::Worker);
  journal.begin(kFirst.next(), 1);
  ASSERT_EQ(journal.history.failures().counts.failures, 1);

  const auto record = journal.history.add_found("t", kFirst.next(), 1, checkpoint(1));

  EXPECT_EQ(record, checkpoint_record(kFirst.next(), 1, 0, checkpoint(1)));
  EXPECT_EQ(journal.history.failures(), FailureMemory{});
  EXPECT_FALSE(journal.history.add_found("t", kFirst.next(), 1, checkpoint(1)));
  journal.end(kFirst.next(), FailureKind::Worker);
  EXPECT_FALSE(journal.history.add_found("t", kFirst.next(), 1, checkpoint(1)));
  EXPECT_EQ(journal.history.failures().counts.failures, 1);
}

TEST(RunHistory, RemembersWhereWorkersDiedAndWhichNodesFailed) {
  const FailureLocation location{.rank = Rank{1}, .node = kNodeB, .report = 41, .checkpoint = 2};
  Journaled journal(kUnlimited);
  for (std::uint32_t i = 0; i < 4; ++i) {
    journal.begin(Attempt{i});
    journal.end(Attempt{i}, FailureKind::Worker, location);
  }

  const FailureMemory& memory = journal.history.failures();
  EXPECT_EQ(memory.location,
            (SameLocation{.first = location, .furthest = 41, .times = 4, .one_node = true}));
  EXPECT_EQ(memory.counts.failures, 4);
  EXPECT_EQ(memory.quarantined, std::set<NodeId>{kNodeB});
  EXPECT_EQ(memory.node_failures, (std::map<NodeId, int>{{kNodeB, 1}}));
  journal.add(checkpoint_record(Attempt{3}, 1, 9, checkpoint(3)));
  EXPECT_EQ(journal.history.failures(), FailureMemory{});
}

TEST(RunHistory, KnowsWhereTheNewestAttemptWas) {
  Journaled journal;
  journal.begin(kFirst);
  journal.end(kFirst, FailureKind::Worker);
  EXPECT_EQ(journal.history.placed(), both());
}

TEST(RunHistory, NodesThatWereFoundKeepTheirPlacesForTheirWorkers) {
  Journaled journal;
  journal.add({{"event", "generation_taken"}, {"nodes", {"x"}}});
  journal.add(node_found_record(NodeId{1}, "y"));
  journal.add(node_found_record(NodeId{1}, "again"));  // of no launcher of ours
  EXPECT_EQ(journal.history.with_nodes_of_living({"y", "x"}), (std::vector<std::string>{"y", "x"}));
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.add(node_found_record(NodeId{2}, "z"));

  const auto nodes = journal.history.with_nodes_of_living({"w", "y", "z"});

  EXPECT_EQ(nodes, (std::vector<std::string>{"x", "y", "w", "z"}));
  EXPECT_TRUE(journal.history.living_is_on(nodes));
  EXPECT_FALSE(journal.history.living_is_on({"y", "x"}));
}

TEST(RunHistory, KnowsWhetherTheNodesOfALivingAttemptAreStillAtTheirPlaces) {
  using Names = std::vector<std::string>;
  Journaled journal;
  journal.add({{"event", "generation_taken"}, {"nodes", {"a", "b", "spare"}}});
  journal.begin(kFirst);
  EXPECT_TRUE(journal.history.living_is_on({}));  // no worker was told to start
  journal.state(S::Starting);
  journal.add({{"event", "generation_taken"}, {"nodes", {"a", "b"}}});

  for (const Names& same : {Names{"a", "b", "spare"}, Names{"a", "b"}, Names{"a", "b", "c", "d"}})
    EXPECT_TRUE(journal.history.living_is_on(same));
  for (const Names& other : {Names{"b", "a"}, Names{"a"}, Names{"a", "c", "b"}, Names{}})
    EXPECT_FALSE(journal.history.living_is_on(other));
  EXPECT_EQ(journal.history.nodes_of_living(), (Names{"a", "b", "spare"}));
}

// Otherwise a node would be avoided for what another one did, and ranks would move.
TEST(RunHistory, WhatIsRememberedOfNodesFollowsThemToTheirNewPlaces) {
  Journaled journal(kUnlimited);
  journal.add({{"event", "generation_taken"}, {"nodes", {"a", "b", "c"}}});
  const FailureLocation on_c{.rank = Rank{2}, .node = kNodeC, .report = 9, .checkpoint = 2};
  const FailureLocation on_b{.rank = Rank{1}, .node = kNodeB, .report = 41, .checkpoint = 2};
  for (std::uint32_t i = 0; i < 4; ++i) {
    journal.begin(Attempt{i});
    journal.end(Attempt{i}, FailureKind::Worker, i == 0 ? on_c : on_b);
  }
  journal.add({{"event", "generation_taken"}, {"nodes", {"b", "c"}}});

  const FailureMemory& memory = journal.history.failures();
  EXPECT_EQ(memory.quarantined, std::set<NodeId>{kNodeA});
  EXPECT_EQ(memory.node_failures, (std::map<NodeId, int>{{kNodeB, 1}}));
  EXPECT_EQ(memory.location->first.node, kNodeA);
  EXPECT_EQ(memory.counts.failures, 4);
  const std::vector<PlacedNode>& placed = journal.history.placed().nodes;
  ASSERT_EQ(placed.size(), 2U);
  EXPECT_LT(placed[0].node.value, 0);  // "a" is gone, and another node takes its place
  EXPECT_EQ(placed[1].node, kNodeA);

  journal.history.number_nodes_by({"c", "d", "b"});
  EXPECT_EQ(journal.history.failures().quarantined, std::set<NodeId>{kNodeC});
  journal.history.number_nodes_by({"d"});
  EXPECT_EQ(journal.history.failures().quarantined, std::set<NodeId>{});
  EXPECT_EQ(journal.history.failures().node_failures, (std::map<NodeId, int>{}));
  EXPECT_LT(journal.history.failures().location->first.node.value, 0);
}

TEST(RunHistory, ARunWhoseLauncherDiedAfterItsLastWorkerHasFinished) {
  Journaled journal;
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.end(kFirst);
  EXPECT_FALSE(journal.history.finished());
  journal.state(S::Finished);

  EXPECT_TRUE(journal.history.finished());
}

TEST(RunHistory, AnAttemptThatEndedWellHasNotFailed) {
  Journaled journal;
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.end(kFirst);

  ASSERT_EQ(journal.history.attempts().size(), 1U);
  EXPECT_FALSE(journal.history.attempts()[0].failed);
  EXPECT_EQ(journal.history.attempts()[0].cause, "");
}

TEST(RunHistory, ARunThatEndedInErrorHasNotFinished) {
  Journaled journal;
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.end(kFirst, FailureKind::Worker);
  journal.state(S::Errored);
  journal.add(record_of(RunEnded{S::Errored, "no restart left", {}}));

  EXPECT_FALSE(journal.history.finished());
  EXPECT_FALSE(journal.history.ended());
}

TEST(RunHistory, ARunWhoseLauncherDiedBeforeItRecordedTheEndHasEnded) {
  Journaled journal(0);
  journal.begin(kFirst);
  journal.state(S::Starting);
  journal.end(kFirst, FailureKind::Worker);
  StateChanged change{S::TearingDown, S::Errored, RunTrigger::GaveUp, kFirst, "no restart"};
  journal.add(record_of(change));
  EXPECT_EQ(journal.history.ended(), (RunEnded{S::Errored, "no restart", {}}));

  change.to = S::Stopped;
  change.stop = StopKind::Terminate;
  journal.add(record_of(change));
  EXPECT_EQ(journal.history.ended(), (RunEnded{S::Stopped, "no restart", StopKind::Terminate}));
  EXPECT_FALSE(journal.history.finished());

  // Somebody has resumed it by hand.
  EXPECT_EQ(journal.history.failures().counts.failures, 0);
  journal.begin(kSecond);
  EXPECT_EQ(journal.history.ended(), std::nullopt);
}

TEST(RunHistory, TheNextLauncherThatDiesDoesNotForgetWhoAskedForTheEnd) {
  Journaled journal(0);
  journal.begin(kFirst);
  StateChanged change{S::TearingDown, S::Stopped, RunTrigger::EndedByRequest, kFirst, "asked"};
  change.stop = StopKind::Interrupt;
  journal.add(record_of(change));
  change.stop.reset();
  journal.add(record_of(change));

  EXPECT_EQ(journal.history.ended(), (RunEnded{S::Stopped, "asked", StopKind::Interrupt}));
}

TEST(RunHistory, SomebodyWhoStartsAnEndedRunByHandIsRememberedBeforeAnAttemptBegins) {
  const auto taken = [](RunState state, bool by_hand) {
    Journaled journal(1);
    journal.begin(kFirst);
    journal.end(kFirst, FailureKind::Worker);
    journal.state(state);
    journal.add({{"event", "generation_taken"}, {"by_hand", by_hand}});
    return std::pair(journal.history.ended().has_value(),
                     journal.history.failures().counts.failures);
  };
  EXPECT_EQ(taken(S::Errored, true), std::pair(false, 0));
  EXPECT_EQ(taken(S::Errored, false), std::pair(true, 1));
  EXPECT_EQ(taken(S::Finished, true), std::pair(true, 1)) << "nothing is left to train";
  EXPECT_EQ(taken(S::TearingDown, true), std::pair(false, 1)) << "it has not ended";
}

TEST(RunHistory, ARunThatSomebodyResumesHasFullBudgetsThoughItsEndWasNotRecorded) {
  Journaled journal(1);
  journal.begin(kFirst);
  journal.end(kFirst, FailureKind::Worker);
  EXPECT_EQ(journal.history.failures().counts.failures, 1);
  journal.state(S::Errored);

  journal.begin(kSecond);

  EXPECT_EQ(journal.history.failures(), FailureMemory{});
}

TEST(RunHistory, ACheckpointsRecordSaysWhichOneItIs) {
  EXPECT_EQ(checkpoint_record(kSecond, 4, 51, checkpoint(7)),
            (boost::json::object{{"event", "checkpoint_committed"},
                                 {"attempt", 1u},
                                 {"checkpoint_seq", 4u},
                                 {"report", 51u},
                                 {"checkpoint", 7u},
                                 {"trained_epoch", 3}}));
}

TEST(RunHistory, KnowsWithWhichReportTheNewestCheckpointOfAnAttemptCame) {
  Journaled journal;
  journal.begin(kFirst);
  journal.add(checkpoint_record(kFirst, 1, 9, checkpoint(1)));
  journal.begin(kSecond);
  journal.add(checkpoint_record(kSecond, 1, 20, checkpoint(2)));
  journal.add(checkpoint_record(kSecond, 2, 51, checkpoint(3)));
  journal.add(checkpoint_record(kFirst, 2, 60, checkpoint(4)));  // from an attempt that is over

  const std::vector<PastAttempt>& attempts = journal.history.attempts();
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0].checkpoint_report, 9u);
  EXPECT_EQ(attempts[1].checkpoint_report, 51u);
  EXPECT_EQ(attempts[1].checkpoint_at, "t");
}

TEST(RunHistory, RecordsSurviveBeingText) {
  const boost::json::object record =
      record_of(begun(kSecond, both(), {"node-a", "node-b"}, 1, checkpoint(4)));
  const auto again = boost::json::parse(boost::json::serialize(record)).as_object();
  RunHistory direct(FailureConfig{}), parsed(FailureConfig{});
  for (RunHistory* history : {&direct, &parsed}) {
    history->add(Generation{1}, "t", history == &direct ? record : again);
    history->add(
        Generation{1}, "t",
        record_of(StateChanged{S::Preparing, S::Starting, RunTrigger::AllPrepared, kSecond, ""}));
    ASSERT_TRUE(history->living());
    EXPECT_EQ(history->living()->placement, both());
    EXPECT_EQ(history->living()->restored, checkpoint(4));
  }
}

TEST(RunHistory, PassesOverWhatItDoesNotKnow) {
  Journaled journal;
  journal.add({{"event", "of_a_newer_version"}, {"attempt", "x"}});
  journal.add({{"event", "attempt_started"}, {"attempt", 4}});
  journal.add({{"event", "state"}, {"state", "starting"}, {"attempt", 4}});
  EXPECT_FALSE(journal.history.living());  // nobody knows where it was
  EXPECT_EQ(journal.history.next_attempt(), Attempt{5});
}

TEST(RunHistory, KnowsWhatTheTimeOfTheWorkersWasUsedFor) {
  const auto at = [](int second) { return fmt::format("2026-11-26T10:00:{:02}.000000Z", second); };
  Journaled journal;
  RunHistory& history = journal.history;
  const auto add = [&](int second, const boost::json::object& record) {
    history.add(Generation{1}, at(second), record);
  };
  AttemptEnded ended{.attempt = kFirst,
                     .cause = "",
                     .failed = true,
                     .root_rank = {},
                     .root_end = {},
                     .root_node = "",
                     .start_error = {}};
  ended.time[TimeUse::Step] = milliseconds(1500);
  ended.time[TimeUse::Lost] = seconds(8);

  add(0, record_of(begun(kFirst, both(), {"node-a", "node-b"})));
  add(5, record_of(ended, "rank 1 was killed"));
  EXPECT_EQ(history.attempts().at(0).time, ended.time);
  EXPECT_EQ(history.down_since(), at(5));

  add(15, record_of(begun(kSecond, both(), {"node-a", "node-b"}, 1)));
  add(15, record_of(begun(kSecond, both(), {"node-a", "node-b"}, 1)));  // from a newer checkpoint
  TimeAccounts expected = ended.time;
  expected[TimeUse::Down] = seconds(20);  // of two workers
  EXPECT_EQ(history.worker_time(), expected);
  EXPECT_EQ(history.down_since(), "");

  // A run that has ended is not down until somebody resumes it.
  ended.attempt = kSecond;
  add(20, record_of(ended, "rank 1 was killed"));
  add(20, record_of(StateChanged{S::TearingDown, S::Errored, RunTrigger::GaveUp, kSecond, ""}));
  EXPECT_EQ(history.down_since(), "");
  add(50, record_of(begun(Attempt{2}, both(), {"node-a", "node-b"}, 1)));
  expected += ended.time;
  EXPECT_EQ(history.worker_time(), expected);
}

TEST(RunHistory, TakesNoTimeFromADamagedRecord) {
  TimeAccounts expected;
  expected[TimeUse::Data] = seconds(2);
  EXPECT_EQ(time_in({{"worker_seconds",
                      {{"data", 2}, {"step", -1}, {"lost", "x"}, {"of a newer version", 3}}}}),
            expected);
  EXPECT_EQ(time_in({{"worker_seconds", 3}}), TimeAccounts{});
  EXPECT_LT(time_in({{"worker_seconds", {{"step", 1e300}}}})[TimeUse::Step],
            std::chrono::hours(300'000));
}

TEST(RunHistory, TheTimeOfARunIsThatOfItsEndElseThatOfItsNote) {
  const boost::json::object end{{"goodput", {{"worker_seconds", {{"step", 5}}}}}};
  const boost::json::object note{{"worker_seconds", {{"step", 1}}},
                                 {"run", {{"worker_seconds", {{"step", 3}}}}}};

  EXPECT_EQ(run_time_in(end, note)[TimeUse::Step], seconds(5));
  EXPECT_EQ(run_time_in({}, note)[TimeUse::Step], seconds(3));
  EXPECT_EQ(run_time_in({{"goodput", nullptr}}, note)[TimeUse::Step], seconds(3));
  EXPECT_EQ(run_time_in({}, {{"run", 7}}), TimeAccounts{});
}

TEST(RunHistory, RecordsHoldNoTextOfAnyLength) {
  const std::string cause(1'200'000, 'x');
  AttemptEnded ended;
  StateChanged changed;
  RunEnded run_ended;
  changed.reason = run_ended.reason = cause;

  for (const boost::json::object& record :
       {record_of(ended, cause), record_of(changed), record_of(run_ended)})
    EXPECT_LT(boost::json::serialize(record).size(), 5'000u);
}

TEST(RunHistory, KnowsWhereTheIngestWorkersOfALivingAttemptAre) {
  Journaled journal;
  Placement placement = both();
  placement.ingest = {{"train", 1, kNodeA}, {"train", 2, kNodeB}};
  journal.add(record_of(begun(kFirst, placement, {"node-a", "node-b"})));
  journal.state(S::Starting);

  ASSERT_TRUE(journal.history.living());
  EXPECT_EQ(journal.history.living()->placement.ingest, placement.ingest);
}

}  // namespace
}  // namespace train
