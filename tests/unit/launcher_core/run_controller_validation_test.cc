// Validation of committed checkpoints: beside the training, across attempts and launchers, and
// after the training's end.
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

JobSpec validating(int max_failures = 1) {
  JobSpec spec = two_workers(max_failures);
  spec.run_config.checkpoint_config.validation.every = 1;
  return spec;
}
Actions commit_one(Driven& d, std::uint64_t index, Attempt attempt = kFirst) {
  d.handle(staged(attempt, 0, index));
  d.handle(staged(attempt, 1, index));
  return d.handle(CommitFinished{attempt, index, checkpoint(index), "", false, {}});
}
using Validations = std::vector<Validate>;
using Texts = std::vector<std::string>;
Texts notes(const Actions& actions) {
  Texts texts;
  for (const Note& note : only<Note>(actions)) texts.push_back(note.text);
  return texts;
}
/// Let every rank end with 0, and the supervisors report everything.
Actions end_well(Driven& d) {
  for (int rank = 0; rank < 2; ++rank) d.handle(RankExited{kFirst, Rank{rank}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  return d.handle(NodeGroupGone{kFirst, kNodeB});
}

TEST(RunControllerValidation, BeginsOnTheNodeOfRankZeroAndGoesOnWithTheNext) {
  Driven d(validating());
  d.running();

  EXPECT_EQ(only<Validate>(commit_one(d, 1)), (Validations{{kFirst, kNodeA, checkpoint(1)}}));
  EXPECT_EQ(only<Validate>(commit_one(d, 2)), Validations{});
  EXPECT_EQ(d.run.unvalidated(), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(only<Validate>(d.handle(ValidationFinished{1})),
            (Validations{{kFirst, kNodeA, checkpoint(2)}}));
  d.handle(ValidationFinished{2});
  EXPECT_EQ(d.run.unvalidated(), std::vector<std::uint64_t>{});
  EXPECT_EQ(d.run.state(), RunState::Running);
}

TEST(RunControllerValidation, IsAskedForOnlyWhereTheSpecDoes) {
  Driven d;
  d.running();
  EXPECT_EQ(only<Validate>(commit_one(d, 1)), Validations{});
}

TEST(RunControllerValidation, IsAskedForAgainOverANewLink) {
  Driven d(validating());
  d.running();
  commit_one(d, 1);

  d.handle(node_up(kNodeA, {kFirst}));
  EXPECT_EQ(only<Validate>(d.handle(SupervisorAttached{kFirst, kNodeA})),
            (Validations{{kFirst, kNodeA, checkpoint(1)}}));
  EXPECT_EQ(only<Validate>(d.handle(SupervisorAttached{kFirst, kNodeB})), Validations{});
}

TEST(RunControllerValidation, TheRunEndsOnlyWhenAllAreValidated) {
  Driven d(validating());
  d.running();
  commit_one(d, 1);
  commit_one(d, 2);

  const Actions ending = end_well(d);

  EXPECT_EQ(notes(ending),
            Texts{"the training has ended; waiting for the validation of 2 checkpoints"});
  EXPECT_EQ(only<Release>(ending).size() + only<AttemptEnded>(ending).size(), 0u);
  EXPECT_EQ(d.run.state(), RunState::TearingDown);
  EXPECT_EQ(only<Validate>(d.handle(ValidationFinished{1})),
            (Validations{{kFirst, kNodeA, checkpoint(2)}}));
  const Actions over = d.handle(ValidationFinished{2});
  EXPECT_EQ(only<Release>(over).size(), 2u);
  EXPECT_EQ(d.run.state(), RunState::Finished);
}

TEST(RunControllerValidation, CtrlCEndsTheWaitForIt) {
  Driven d(validating());
  d.running();
  commit_one(d, 1);
  end_well(d);

  const Actions stopped = d.handle(StopAsked{StopKind::Interrupt, "Ctrl-C"});

  EXPECT_EQ(only<Release>(stopped).size(), 2u);
  EXPECT_EQ(d.run.state(), RunState::Stopped);
}

TEST(RunControllerValidation, BeginsAgainWithTheNextAttempt) {
  Driven d(validating());
  d.running();
  commit_one(d, 1);

  d.handle(RankExited{kFirst, Rank{1}, exited(1)});
  d.handle(RankExited{kFirst, Rank{0}, killed(15, true)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  const Actions ended = d.handle(NodeGroupGone{kFirst, kNodeB});
  EXPECT_EQ(only<Release>(ended).size(), 2u);  // a failed attempt waits for no validation
  const Attempt second = kFirst.next();
  d.handle(AttemptPrepared{second, kNodeA, 41000}, seconds(1));
  d.handle(AttemptPrepared{second, kNodeB, 0}, seconds(1));
  d.handle(AttemptStarted{second, kNodeA, {{Rank{0}, 100}}}, seconds(1));
  const Actions started = d.handle(AttemptStarted{second, kNodeB, {{Rank{1}, 100}}}, seconds(1));

  EXPECT_EQ(only<Validate>(started), (Validations{{second, kNodeA, checkpoint(1)}}));
}

TEST(RunControllerValidation, AfterTheTrainingAnotherNodeTakesItOver) {
  Driven d(validating());
  d.running();
  commit_one(d, 1);
  end_well(d);

  EXPECT_EQ(only<Validate>(d.handle(SupervisorLost{kFirst, kNodeA, "killed"})),
            (Validations{{kFirst, kNodeB, checkpoint(1)}}));
  const Actions nobody = d.handle(node_up(kNodeB));  // it came back without its supervisor

  EXPECT_EQ(notes(nobody),
            Texts{"1 checkpoint was not validated: no supervisor of the run is left"});
  EXPECT_EQ(only<Release>(nobody), std::vector<Release>{});
  EXPECT_EQ(d.run.state(), RunState::Finished);
}

TEST(RunControllerValidation, ALaterLauncherGoesOnWithWhatHasNoResult) {
  LivingAttempt living;
  living.id = kFirst;
  living.placement = both();
  living.node_names = {"node-a", "node-b"};
  living.ending = true;  // its workers had ended, and it waited for validations
  Driven d(validating(), {.checkpoint = checkpoint(2),
                          .last_checkpoint_number = 2,
                          .expected_nodes = 2,
                          .unvalidated = {checkpoint(2)},
                          .living = living});
  d.handle(node_up(kNodeA, {kFirst}));
  d.handle(node_up(kNodeB, {kFirst}));
  d.handle(SupervisorAttached{kFirst, kNodeA});
  for (int rank = 0; rank < 2; ++rank) d.handle(RankExited{kFirst, Rank{rank}, exited(0)});
  d.handle(NodeGroupGone{kFirst, kNodeA});
  d.handle(SupervisorAttached{kFirst, kNodeB});

  EXPECT_EQ(only<Validate>(d.handle(NodeGroupGone{kFirst, kNodeB})),
            (Validations{{kFirst, kNodeA, checkpoint(2)}}));
  d.handle(ValidationFinished{2});
  EXPECT_EQ(d.run.state(), RunState::Finished);
}

TEST(RunControllerValidation, SaysWhichOneIsGivenUpWhenTooManyWait) {
  Driven d(validating());
  d.running();
  for (std::uint64_t index = 1; index <= kValidationsWaitingMax + 1; ++index)
    EXPECT_EQ(notes(commit_one(d, index)), Texts{});

  EXPECT_EQ(notes(commit_one(d, kValidationsWaitingMax + 2)),
            Texts{"checkpoint_000002 is not validated: 8 newer ones are already waiting (raise "
                  "checkpoint_config.validation.every)"});
}

TEST(RunControllerValidation, SaysWhichAreGivenUpWhenALauncherBeginsWithTooMany) {
  RunStart start{.expected_nodes = 2};
  for (std::uint64_t number = 1; number <= kValidationsWaitingMax + 2; ++number)
    start.unvalidated.push_back(checkpoint(number));
  Driven d(validating(), start);

  EXPECT_EQ(notes(d.handle(node_up(kNodeA))),
            (Texts{"checkpoint_000001 is not validated: 8 newer ones are already waiting (raise "
                   "checkpoint_config.validation.every)",
                   "checkpoint_000002 is not validated: 8 newer ones are already waiting (raise "
                   "checkpoint_config.validation.every)"}));
  EXPECT_EQ(d.run.unvalidated().size(), kValidationsWaitingMax);
  EXPECT_EQ(d.run.unvalidated().back(), kValidationsWaitingMax + 2);
}

}  // namespace
}  // namespace train
