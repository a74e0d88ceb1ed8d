// Commits and removes checkpoints on a real file system.
#include "launcher/cluster/checkpoints/checkpoint_manager.h"

#include <filesystem>
#include <fstream>

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

const std::string kCreated = "2026-11-21T09:38:00.123456Z";

class CheckpointManagerTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1);
    spec_.run_config.name = "vit";
    spec_.run_config.storage_path = temp_.path();
    auto record = RunRecord::open(spec_, {});
    ASSERT_TRUE(record) << record.error().describe();
    record_ = std::move(*record);
  }

  /// Put a checkpoint on disk, without any files.
  void put_checkpoint(std::uint64_t number) {
    const std::string folder = record_->checkpoints().path_of(CheckpointNumber{number});
    const auto text =
        format_manifest({.checkpoint = CheckpointNumber{number}, .created = kCreated});
    ASSERT_TRUE(text) << text.error().describe();
    std::filesystem::create_directory(folder);
    std::ofstream(join_path(folder, kManifestName)) << *text;
  }

  Result<CheckpointManager::Outcome> try_commit(CheckpointManager& manager, std::uint64_t number,
                                                const CheckpointManager::Pinned& pinned = {},
                                                CommitFence* fence = nullptr) {
    const std::string staged = temp_.path() + "/staged";
    std::filesystem::create_directory(staged);
    std::ofstream(staged + "/model.pt") << number;
    TRY(const auto shard,
        write_shard(record_->files(), record_->checkpoints().folder(),
                    {record_->generation(), Attempt{0}, CheckpointSeq{number}}, Rank{0}, staged));
    const StagedShard brought{shard};
    return manager.commit(
        {.attempt = Attempt{0}, .checkpoint_seq = number, .number = number, .shards = {brought}},
        {}, kCreated, pinned, fence);
  }
  void commit(CheckpointManager& manager, std::uint64_t number,
              const CheckpointManager::Pinned& pinned = {}) {
    const auto outcome = try_commit(manager, number, pinned);
    ASSERT_TRUE(outcome) << outcome.error().describe();
    EXPECT_EQ(outcome->warnings, std::vector<std::string>{});
  }

  std::vector<std::uint64_t> numbers() {
    std::vector<std::uint64_t> numbers;
    for (const ListedCheckpoint& one : *record_->checkpoints().list())
      numbers.push_back(one.number.value);
    return numbers;
  }

  TempFolder temp_;
  JobSpec spec_;
  std::unique_ptr<RunRecord> record_;
};

TEST_F(CheckpointManagerTest, RemovesAFewAtACommitWhereVeryManyNeedNotBeKept) {
  for (std::uint64_t number = 1; number <= kRemovalsMax + 3; ++number) put_checkpoint(number);
  CheckpointManager manager({.num_to_keep = 2, .score_attribute = {}}, *record_);

  commit(manager, kRemovalsMax + 4);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{kRemovalsMax + 1, kRemovalsMax + 2,
                                                   kRemovalsMax + 3, kRemovalsMax + 4}));

  commit(manager, kRemovalsMax + 5);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{kRemovalsMax + 4, kRemovalsMax + 5}));
}

TEST_F(CheckpointManagerTest, OneThatWasReplacedLeavesTheShardsToItsSuccessor) {
  CheckpointManager manager({}, *record_);
  const auto successor = RunRecord::open(spec_, {.force = true});
  ASSERT_TRUE(successor) << successor.error().describe();

  const auto outcome = try_commit(manager, 1);

  ASSERT_TRUE(outcome.has_error());
  EXPECT_EQ(outcome.error().code, Errc::Fenced);
  EXPECT_EQ(text_of(record_->checkpoints().folder() + "/.tmp-1-0.1/model.pt"), "1");
}

TEST_F(CheckpointManagerTest, OneThatWasGivenUpTooLateTakesNothingFromTheNextAttempt) {
  CheckpointManager manager({.num_to_keep = 1}, *record_);
  commit(manager, 1);
  CommitFence fence;
  ASSERT_TRUE(fence.pass());
  ASSERT_FALSE(fence.close());  // the next attempt reads checkpoint 1 from now on

  ASSERT_TRUE(try_commit(manager, 2, {}, &fence));
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{1, 2}));

  commit(manager, 3);
  EXPECT_EQ(numbers(), std::vector<std::uint64_t>{3});
}

class ManagerOfReplicas : public CheckpointManagerTest {
 protected:
  /// Begin a run that has committed two checkpoints, and let the next launcher open it.
  void SetUp() override {
    CheckpointManagerTest::SetUp();
    std::vector<boost::json::object> events{{{"event", "attempt_started"}, {"attempt", 3}}};
    for (const std::uint64_t number : {1, 2})
      events.push_back(checkpoint_record(Attempt{3}, 4 + number, 9, {number, "", -1}));
    ASSERT_TRUE(record_->journal().append(events, kCreated));
    folder_ = record_->checkpoints().folder();
    std::filesystem::create_directory(folder_ + "/checkpoint_000002");
    std::ofstream(folder_ + "/checkpoint_000002/" + std::string(kManifestName)) << "damaged";
    record_.reset();
    auto record = RunRecord::open(spec_, {});
    ASSERT_TRUE(record) << record.error().describe();
    record_ = std::move(*record);
  }
  std::vector<std::string> kept() const {
    return CheckpointManager({.replicas = 2}, *record_).keep_on_nodes();
  }
  std::string folder_;
};

TEST_F(ManagerOfReplicas, KeepsOnNodesWhatADamagedManifestNames) {
  EXPECT_EQ(kept(), std::vector<std::string>{"data-1-3.6"});
}

TEST_F(ManagerOfReplicas, KeepsOnNodesAllThatWasCommittedIfNoManifestCanBeRead) {
  std::filesystem::remove_all(folder_);
  std::ofstream(folder_) << "not a folder";
  EXPECT_EQ(kept(), (std::vector<std::string>{"data-1-3.5", "data-1-3.6"}));
}

CheckpointConfig by_validation() {
  CheckpointConfig config{.num_to_keep = 1, .score_attribute = "val_acc"};
  config.validation.every = 1;
  return config;
}
ValidationRecord validated(std::uint64_t number, double accuracy) {
  return {.checkpoint = CheckpointNumber{number}, .metrics = {{"val_acc", accuracy}}};
}

TEST_F(CheckpointManagerTest, WhatIsNotValidatedYetStays) {
  CheckpointManager manager(by_validation(), *record_);
  commit(manager, 1);
  commit(manager, 2, {CheckpointNumber{1}});
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{1, 2}));

  const auto first = manager.validated(validated(1, 0.9), {CheckpointNumber{2}});
  ASSERT_TRUE(first) << first.error().describe();
  EXPECT_EQ(first->best->info.number, 1u);
  EXPECT_EQ(first->best->score, 0.9);
  commit(manager, 3, {CheckpointNumber{2}});
  const auto second = manager.validated(validated(2, 0.5), {});

  ASSERT_TRUE(second) << second.error().describe();
  EXPECT_EQ(second->best->info.number, 1u);
  EXPECT_EQ(second->removed, std::vector<std::uint64_t>{2});
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{1, 3}));  // the best and the newest
}

TEST_F(CheckpointManagerTest, AValidationTakesNothingThatTheNextAttemptMayBeReading) {
  CheckpointManager manager(by_validation(), *record_);
  commit(manager, 1);
  CommitFence fence;
  ASSERT_TRUE(fence.pass());
  ASSERT_FALSE(fence.close());  // the next attempt reads checkpoint 1 from now on
  ASSERT_TRUE(try_commit(manager, 2, {}, &fence));

  ASSERT_TRUE(manager.validated(validated(2, 0.9), {}));
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{1, 2}));

  commit(manager, 3);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{2, 3}));
}

TEST_F(CheckpointManagerTest, ALaterLauncherKnowsWhatWasValidated) {
  {
    CheckpointManager manager({.num_to_keep = {}, .score_attribute = "val_acc"}, *record_);
    put_checkpoint(1);
    put_checkpoint(2);
  }
  CheckpointManager first(by_validation(), *record_);
  ASSERT_TRUE(first.validated(validated(1, 0.9), {CheckpointNumber{2}}));

  CheckpointManager later(by_validation(), *record_);

  EXPECT_EQ(later.best()->score, 0.9);
  const RunStart start = later.with_unvalidated({});
  ASSERT_EQ(start.unvalidated.size(), 1u);
  EXPECT_EQ(start.unvalidated[0].number, 2u);
  EXPECT_EQ(later.known().at(0).validation, ValidationStatus::Validated);
  EXPECT_EQ(later.known().at(0).metrics, (Metrics{{"val_acc", 0.9}}));
}

TEST_F(CheckpointManagerTest, AValidationThatFailedIsWrittenDownToo) {
  put_checkpoint(1);
  CheckpointManager manager(by_validation(), *record_);

  const auto outcome = manager.validated({.checkpoint = CheckpointNumber{1},
                                          .status = ValidationStatus::Failed,
                                          .error = "it exited with 1"},
                                         {});

  ASSERT_TRUE(outcome) << outcome.error().describe();
  ASSERT_EQ(outcome->warnings.size(), 1u);  // it has no score
  EXPECT_EQ(manager.known().at(0).error, "it exited with 1");
  EXPECT_TRUE(
      CheckpointManager(by_validation(), *record_).with_unvalidated({}).unvalidated.empty());
}

TEST_F(CheckpointManagerTest, AResultForACheckpointThatIsGoneIsRefused) {
  CheckpointManager manager(by_validation(), *record_);
  const auto outcome = manager.validated(validated(7, 0.9), {});
  ASSERT_TRUE(outcome.has_error());
  EXPECT_EQ(outcome.error().code, Errc::NotFound);
}

}  // namespace
}  // namespace train
