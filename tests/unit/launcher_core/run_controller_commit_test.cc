// A commit on storage that does not answer.
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using S = RunState;
using Texts = std::vector<std::string>;

JobSpec spec_with(Duration upload_timeout, int max_failures = 0) {
  JobSpec spec = two_workers(max_failures);
  spec.run_config.storage_path = "/s";
  spec.run_config.checkpoint_config.upload_timeout = upload_timeout;
  return spec;
}

/// The workers run, and the commit of the first checkpoint begins at kStart.
struct Committing : Driven {
  explicit Committing(Duration upload_timeout = std::chrono::minutes(10), int max_failures = 0)
      : Driven(spec_with(upload_timeout, max_failures)) {
    running();
    bring_shards(1);
  }
  Actions bring_shards(std::uint64_t index) {
    handle(staged(kFirst, 0, index));
    return handle(staged(kFirst, 1, index));
  }
  void workers_end(int code = 0, Duration after = {}) {
    for (int rank = 0; rank < 2; ++rank)
      handle(RankExited{kFirst, Rank{rank}, exited(code)}, after);
    handle(NodeGroupGone{kFirst, kNodeA}, after);
    handle(NodeGroupGone{kFirst, kNodeB}, after);
  }
};

Texts notes(const Actions& actions) {
  Texts texts;
  for (const Note& note : only<Note>(actions)) texts.push_back(note.text);
  return texts;
}
CommitFinished given_up(std::uint64_t index, bool may_come = false) {
  return {.attempt = kFirst,
          .checkpoint_seq = index,
          .checkpoint = {},
          .error = "'/s' did not answer",
          .may_come = may_come};
}
CommitFinished committed(std::uint64_t index) { return {kFirst, index, checkpoint(index), ""}; }
StopAsked ctrl_c() { return {StopKind::Interrupt, "Ctrl-C"}; }

TEST(HangingCommit, IsSaidOnce) {
  Committing d;
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(60));

  EXPECT_EQ(notes(d.handle(Tick{}, seconds(59))), Texts{});
  EXPECT_EQ(
      d.handle(Tick{}, seconds(60)),
      (Actions{Note{NoteLevel::Warning,
                    "checkpoint 1 of attempt 0 is not committed for 1 min 0 s: '/s' does not "
                    "answer; training continues until the second checkpoint after it is due"}}));
  EXPECT_EQ(d.handle(Tick{}, seconds(300)), Actions{});
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(600));
}

TEST(HangingCommit, IsSaidAfterHalfOfAShortTime) {
  Committing d(seconds(10));

  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(5));
  EXPECT_EQ(notes(d.handle(Tick{}, seconds(5))).size(), 1u);
}

TEST(HangingCommit, IsGivenUpInTheEndAndTheNextOneFollows) {
  Committing d;
  EXPECT_EQ(only<Commit>(d.bring_shards(2)).size(), 0u);

  EXPECT_EQ(only<GiveUpCommit>(d.handle(Tick{}, seconds(600))),
            (std::vector<GiveUpCommit>{{kFirst, 1,
                                        "'/s' did not answer within 10 min 0 s "
                                        "(the limit is checkpoint_config.upload_timeout)"}}));
  EXPECT_EQ(d.handle(Tick{}, seconds(601)), Actions{});  // only one warning
  EXPECT_EQ(d.run.next_deadline(), std::nullopt);
  const Actions actions = d.handle(given_up(1), seconds(601));

  EXPECT_EQ(
      notes(actions),
      (Texts{"checkpoint 1 of attempt 0 is not kept: '/s' did not answer; training continues"}));
  EXPECT_EQ(only<TellCheckpoint>(actions).size(), 2u);
  ASSERT_EQ(only<Commit>(actions).size(), 1u);
  EXPECT_EQ(only<Commit>(actions)[0].number, 2u);
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(661));
  EXPECT_EQ(d.run.newest_checkpoint(), std::nullopt);
}

TEST(HangingCommit, OneThatComesAfterItWasGivenUpCounts) {
  Committing d(std::chrono::minutes(10), /*max_failures=*/1);
  d.handle(Tick{}, seconds(600));

  const Actions actions = d.handle(given_up(1, /*may_come=*/true), seconds(600));
  d.workers_end(/*code=*/1, seconds(601));
  ASSERT_EQ(d.run.attempt(), kSecond);
  EXPECT_EQ(d.handle(committed(1), seconds(602)), Actions{});

  EXPECT_EQ(
      notes(actions),
      (Texts{
          "checkpoint 1 of attempt 0 may not be kept: '/s' did not answer; training continues"}));
  EXPECT_EQ(d.run.newest_checkpoint(), checkpoint(1));
}

// The journal, and what is decided if it turns out not to be intact, must be about the same one.
TEST(HangingCommit, OneThatComesWhileTheNextAttemptIsPreparedIsRecordedAndRestored) {
  Committing d(seconds(10), /*max_failures=*/1);
  d.handle(Tick{}, seconds(10));
  d.handle(given_up(1, /*may_come=*/true), seconds(10));
  d.workers_end(1, seconds(11));
  ASSERT_EQ(d.run.attempt(), kSecond);

  d.handle(committed(1), seconds(12));
  d.handle(AttemptPrepared{kSecond, kNodeA, 41000}, seconds(12));
  const Actions prepared = d.handle(AttemptPrepared{kSecond, kNodeB, 0}, seconds(12));

  EXPECT_EQ(only<AttemptBegun>(prepared),
            (std::vector{begun(kSecond, both(), {"node-a", "node-b"}, 1, checkpoint(1))}));
  ASSERT_EQ(only<Start>(prepared).size(), 2U);
  EXPECT_EQ(only<Start>(prepared)[0].restore, checkpoint(1));
  d.handle(StartRefused{kSecond, kNodeA, Rank{0}, Error{Errc::Corrupt, "other bytes"}},
           seconds(12));
  EXPECT_EQ(d.run.newest_checkpoint(), std::nullopt);
}

TEST(HangingCommit, OneThatComesAfterTheNextOneIsNotTheNewest) {
  Committing d;
  d.bring_shards(2);
  d.handle(Tick{}, seconds(600));
  d.handle(given_up(1, /*may_come=*/true), seconds(600));
  d.handle(committed(2), seconds(601));

  d.handle(committed(1), seconds(602));

  EXPECT_EQ(d.run.newest_checkpoint(), checkpoint(2));
}

TEST(HangingCommit, TheEndWaitsForItAndSaysSo) {
  Committing d;
  d.workers_end(0, seconds(9));
  EXPECT_EQ(d.run.state(), S::TearingDown);
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(10));

  EXPECT_EQ(d.handle(Tick{}, seconds(10)),
            (Actions{Note{NoteLevel::Info,
                          "waiting at most 9 min 50 s for checkpoint 1 of attempt 0 to be "
                          "committed; Ctrl-C gives it up"}}));
  EXPECT_EQ(notes(d.handle(Tick{}, seconds(11))), Texts{});
  d.handle(committed(1), seconds(12));

  EXPECT_EQ(d.run.state(), S::Finished);
  EXPECT_EQ(d.run.newest_checkpoint(), checkpoint(1));
}

TEST(HangingCommit, TheEndDoesNotWaitForEver) {
  Committing d;
  d.workers_end(0, seconds(9));
  ASSERT_EQ(only<GiveUpCommit>(d.handle(Tick{}, seconds(600))).size(), 1u);

  const Actions actions = d.handle(given_up(1), seconds(600));

  EXPECT_EQ(notes(actions), (Texts{"checkpoint 1 of attempt 0 is not kept: '/s' did not answer"}));
  EXPECT_EQ(d.run.state(), S::Finished);
}

TEST(HangingCommit, CtrlCEndsTheWaitThatWasSaid) {
  Committing d;
  d.workers_end(0, seconds(9));
  d.handle(Tick{}, seconds(10));

  EXPECT_EQ(d.handle(ctrl_c(), seconds(15)),
            (Actions{GiveUpCommit{
                kFirst, 1,
                "'/s' had not answered for 15.0 s when the run was told to stop immediately"}}));
}

TEST(HangingCommit, ACtrlCFromBeforeTheWaitWasSaidDoesNotEndIt) {
  Committing d;
  d.handle(ctrl_c(), seconds(5));
  d.workers_end(0, seconds(7));

  EXPECT_EQ(d.handle(Tick{}, seconds(8)),
            (Actions{Note{NoteLevel::Info,
                          "waiting at most 9 min 52 s for checkpoint 1 of attempt 0 to be "
                          "committed; Ctrl-C gives it up"}}));
}

TEST(HangingCommit, ASecondCtrlCLeavesItOneSecondOnceTheWorkersAreGone) {
  Committing d;
  d.handle(ctrl_c(), seconds(5));
  d.handle(ctrl_c(), seconds(6));
  d.workers_end(1, seconds(7));
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(8));

  EXPECT_EQ(only<GiveUpCommit>(d.handle(Tick{}, seconds(8))).size(), 1u);
  const Actions end = d.handle(given_up(1), seconds(8));

  EXPECT_EQ(end.back(), RunAction(RunEnded{S::Stopped, "Ctrl-C", StopKind::Interrupt}));
}

TEST(HangingCommit, RanksThatMetWaitForItAndSayso) {
  Committing d;
  d.handle(ctrl_c());
  for (const bool arrived : {false, true})
    for (int rank = 0; rank < 2; ++rank) d.handle(RankPaused{kFirst, Rank{rank}, 7, 1, arrived});

  EXPECT_EQ(notes(d.handle(Tick{}, seconds(1))),
            (Texts{"waiting at most 9 min 59 s for checkpoint 1 of attempt 0 to be committed"}));
  const Actions late = d.handle(Tick{}, seconds(30));

  EXPECT_EQ(only<StopGroup>(late).at(0).reason, "their checkpoint was not committed in time");
  EXPECT_EQ(d.run.state(), S::TearingDown);
}

TEST(HangingShards, AreWaitedForUntilTheRunIsToStopAtOnce) {
  Driven d(spec_with(std::chrono::minutes(10)));
  d.running();
  d.handle(ctrl_c(), seconds(5));
  for (int rank = 0; rank < 2; ++rank)
    d.handle(RankExited{kFirst, Rank{rank}, exited(0, true)}, seconds(6));
  EXPECT_EQ(d.handle(Tick{}, seconds(60)), Actions{});

  d.handle(ctrl_c(), seconds(61));
  EXPECT_EQ(d.run.next_deadline(), kStart + seconds(64));
  const Actions end = d.handle(Tick{}, seconds(64));

  EXPECT_EQ(notes(end),
            (Texts{"not waiting for nodes to finish writing to '/s': the run was told to "
                   "stop immediately"}));
  EXPECT_EQ(only<Release>(end), (std::vector<Release>{{kFirst, kNodeA}, {kFirst, kNodeB}}));
  EXPECT_EQ(end.back(), RunAction(RunEnded{S::Stopped, "Ctrl-C", StopKind::Interrupt}));
}

}  // namespace
}  // namespace train
