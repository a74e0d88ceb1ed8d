// Commits and removals on a real file system.
#include "launcher/cluster/checkpoint_keeper.h"

#include <filesystem>
#include <fstream>

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

const std::string kCreated = "2026-11-21T09:38:00.123456Z";

class CheckpointKeeperTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1);
    spec_.run_config.name = "vit";
    spec_.run_config.storage_path = temp_.path();
    auto record = RunRecord::open(spec_, {});
    ASSERT_TRUE(record) << record.error().describe();
    record_ = std::move(*record);
  }

  /// As it is found on disk, without any files.
  void put_checkpoint(std::uint64_t number) {
    const std::string folder = record_->checkpoints().path_of(CheckpointNumber{number});
    const auto text =
        format_manifest({.checkpoint = CheckpointNumber{number}, .created = kCreated});
    ASSERT_TRUE(text) << text.error().describe();
    std::filesystem::create_directory(folder);
    std::ofstream(join_path(folder, kManifestName)) << *text;
  }

  void commit(CheckpointKeeper& keeper, std::uint64_t number) {
    const std::string staged = temp_.path() + "/staged";
    std::filesystem::create_directory(staged);
    const auto part = write_part(record_->files(), record_->checkpoints().folder(),
                                 {record_->epoch(), Attempt{0}, Ordinal{number}}, Rank{0}, staged);
    ASSERT_TRUE(part) << part.error().describe();
    PartOfCheckpoint brought;
    brought.rank = Rank{0};
    brought.dir = part->folder;
    const auto outcome = keeper.commit(
        {.attempt = Attempt{0}, .index = number, .number = number, .parts = {brought}}, {},
        kCreated);
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

TEST_F(CheckpointKeeperTest, RemovesAFewAtACommitWhereVeryManyNeedNotBeKept) {
  for (std::uint64_t number = 1; number <= kRemovalsMax + 3; ++number) put_checkpoint(number);
  CheckpointKeeper keeper({.num_to_keep = 2, .score_attribute = {}}, *record_);

  commit(keeper, kRemovalsMax + 4);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{kRemovalsMax + 1, kRemovalsMax + 2,
                                                   kRemovalsMax + 3, kRemovalsMax + 4}));

  commit(keeper, kRemovalsMax + 5);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{kRemovalsMax + 4, kRemovalsMax + 5}));
}

}  // namespace
}  // namespace train
