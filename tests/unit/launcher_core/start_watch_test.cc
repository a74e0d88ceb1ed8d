// Nodes that never finish preparing or starting are named, and fail the attempt.
#include "launcher/core/start_watch.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using std::chrono::minutes;

JobSpec job(Duration start_timeout = {}) {
  JobSpec spec = two_workers();
  spec.run_config.storage_path = "/nfs/runs";
  spec.working_dir = "/home/a";
  spec.run_config.failure_config.start_timeout = start_timeout;
  return spec;
}

std::vector<std::string> notes(const Actions& actions) {
  std::vector<std::string> texts;
  for (const Note& note : only<Note>(actions)) texts.push_back(note.text);
  return texts;
}

TEST(StartWatch, SaysWhichNodesItWaitsForAndLessAndLessOften) {
  Driven driven(job());
  driven.nodes();
  driven.handle(AttemptPrepared{kFirst, kNodeA, 41000});
  EXPECT_EQ(notes(driven.handle(Tick{}, seconds(59))), std::vector<std::string>{});
  EXPECT_EQ(driven.run.next_deadline(), kStart + minutes(1));
  EXPECT_EQ(notes(driven.handle(Tick{}, minutes(1))),
            std::vector<std::string>{"still waiting after 1 min 0 s for node-b to start a "
                                     "supervisor and look at '/nfs/runs'"});
  EXPECT_EQ(notes(driven.handle(Tick{}, seconds(119))), std::vector<std::string>{});
  EXPECT_EQ(notes(driven.handle(Tick{}, minutes(2))).size(), 1u);
  EXPECT_EQ(driven.run.next_deadline(), kStart + minutes(4));
}

TEST(StartWatch, ANodeThatNeverPreparesFailsTheAttemptWhichWaitsForItNoLonger) {
  Driven driven(job());
  driven.nodes();
  driven.handle(AttemptPrepared{kFirst, kNodeA, 41000});

  driven.handle(Tick{}, minutes(30));
  const auto ended = only<AttemptEnded>(driven.handle(NodeGroupGone{kFirst, kNodeA}, minutes(30)));

  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].failure, FailureKind::Start);
  EXPECT_EQ(ended[0].node, kNodeB);
  EXPECT_EQ(ended[0].cause,
            "node-b did not start a supervisor and look at '/nfs/runs' within 30 min 0 s "
            "(start_timeout)");
}

TEST(StartWatch, ANodeThatNeverStartsItsWorkersFailsTheAttempt) {
  Driven driven(job(seconds(20)));
  driven.nodes();
  driven.prepared(kFirst);
  driven.handle(AttemptStarted{kFirst, kNodeA, {{Rank{0}, 100}}});
  EXPECT_EQ(driven.run.next_deadline(), kStart + seconds(20));

  driven.handle(Tick{}, seconds(20));
  ASSERT_EQ(driven.run.state(), RunState::TearingDown);
  driven.handle(RankExited{kFirst, Rank{0}, killed(SIGTERM, true)}, seconds(21));
  driven.handle(NodeGroupGone{kFirst, kNodeA}, seconds(21));
  // Its workers may begin as long as it has not said that there are none.
  ASSERT_EQ(driven.run.state(), RunState::TearingDown);
  const auto ended = only<AttemptEnded>(driven.handle(NodeGroupGone{kFirst, kNodeB}, seconds(22)));

  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause,
            "node-b did not start its processes in '/home/a' within 20.0 s (start_timeout)");
}

TEST(StartWatch, ASetupOfNodesHasItsOwnTimeBesideThatOfTheStart) {
  JobSpec spec = job(minutes(1));
  spec.per_node_setup = {.command = {"./prepare.sh"}, .timeout = minutes(5)};
  Driven driven(spec);
  driven.nodes();
  driven.handle(AttemptPrepared{kFirst, kNodeA, 41000});
  EXPECT_EQ(notes(driven.handle(Tick{}, minutes(1))),
            std::vector<std::string>{
                "still waiting after 1 min 0 s for node-b to start a supervisor, look at "
                "'/nfs/runs' and run per_node_setup"});
  driven.handle(Tick{}, minutes(6) - seconds(1));
  EXPECT_EQ(driven.run.state(), RunState::Preparing);

  driven.handle(Tick{}, minutes(6));

  EXPECT_EQ(driven.run.state(), RunState::TearingDown);
}

TEST(StartWatch, CodeThatIsShippedIsNamedAsWhatMayTakeLong) {
  JobSpec spec = job(minutes(10));
  spec.ship.on = true;
  const auto note = [&] {
    Driven driven(spec);
    driven.nodes();
    driven.handle(AttemptPrepared{kFirst, kNodeA, 41000});
    return notes(driven.handle(Tick{}, minutes(1))).at(0);
  };
  EXPECT_EQ(note(),
            "still waiting after 1 min 0 s for node-b to start a supervisor, look at '/nfs/runs' "
            "and fetch the code");

  spec.per_node_setup = {.command = {"./prepare.sh"}, .timeout = minutes(5)};
  EXPECT_EQ(note(),
            "still waiting after 1 min 0 s for node-b to start a supervisor, look at '/nfs/runs', "
            "fetch the code and run per_node_setup");
}

TEST(StartWatch, CommandsOfABackendAreNamedAsWhatMayTakeLong) {
  JobSpec spec = job();
  spec.backend = Backend::Custom;
  spec.backend_config.on_start = {"./on_start.sh"};
  Driven driven(spec);
  driven.nodes();
  driven.prepared(kFirst);

  EXPECT_EQ(notes(driven.handle(Tick{}, minutes(1))),
            std::vector<std::string>{
                "still waiting after 1 min 0 s for node-a, node-b to run the commands of "
                "backend_config and start its processes in '/home/a'"});
}

TEST(StartWatch, ACheckpointMayTakeAnyTimeToBringUnlessTheSpecSaysOtherwise) {
  Driven driven(job(), {.checkpoint = checkpoint(3), .expected_nodes = 2});
  driven.nodes();
  driven.prepared(kFirst);
  const auto said = notes(driven.handle(Tick{}, std::chrono::hours(24)));
  EXPECT_EQ(said,
            std::vector<std::string>{"still waiting after 24 h 0 min for node-a, node-b to bring "
                                     "the checkpoint 'checkpoint_3' there and start its processes "
                                     "in '/home/a'"});
  EXPECT_EQ(driven.run.state(), RunState::Starting);

  Driven limited(job(minutes(10)), {.checkpoint = checkpoint(3), .expected_nodes = 2});
  limited.nodes();
  limited.prepared(kFirst);
  limited.handle(Tick{}, minutes(10));
  EXPECT_EQ(limited.run.state(), RunState::TearingDown);
}

}  // namespace
}  // namespace train
