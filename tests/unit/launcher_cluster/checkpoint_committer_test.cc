// Commits checkpoints on a disk thread, and gives one up when it is too late.
#include "launcher/cluster/checkpoints/checkpoint_committer.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <optional>

#include "tests/unit/launcher_cluster/fakes.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

struct NoObserver : CheckpointObserver {
  void committed(const Commit&, const CheckpointManager::Outcome&) override {}
  void validated(const ValidationRecord&, const CheckpointManager::Validated&,
                 const std::string&) override {}
};

class CheckpointCommitterTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1);
    spec_.run_config.name = "vit";
    spec_.run_config.storage_path = temp_.path();
    spec_.run_config.checkpoint_config.replicas = 2;
    auto record = RunRecord::open(spec_, {});
    ASSERT_TRUE(record) << record.error().describe();
    record_ = std::move(*record);
    manager_.emplace(spec_.run_config.checkpoint_config, *record_);
    controller_.emplace(spec_, RunStart{}, clock_.now());
    const CheckpointContext context{io_.get_executor(), disk_,   *manager_,
                                    observer_,          events_, clock_};
    validations_.emplace(context, scope_, record_->folder(), *controller_, links_, messages_);
    committer_.emplace(context, *validations_);
  }
  /// Have the disk thread commit a checkpoint whose shard is on two nodes.
  void begin_commit() {
    std::promise<void> begun;  // the disk thread answers no sooner
    asio::post(disk_, [&] { begun.get_future().wait(); });
    StagedShard shard;
    shard.dir = "data-1-0.1/rank-0000";
    shard.nodes = {"n0", "n1"};
    scope_.spawn(
        "commit",
        committer_->commit(
            {.attempt = Attempt{0}, .checkpoint_seq = 1, .number = 1, .shards = {shard}}, {}));
    io_.poll();
    begun.set_value();
    await_disk();
  }
  /// Wait until the disk thread has done what it was asked for.
  void await_disk() {
    std::promise<void> done;
    asio::post(disk_, [&] { done.set_value(); });
    done.get_future().wait();
  }

  TempFolder temp_;
  JobSpec spec_;
  SystemClock clock_;
  asio::io_context io_;
  asio::thread_pool disk_{1};
  Scope scope_{io_.get_executor()};
  std::unique_ptr<RunRecord> record_;
  NoObserver observer_;
  RecordedEvents events_;
  RecordedMessages messages_;
  FakeLinks links_{{}, [](NodeId, const Frame&) {}};
  std::optional<CheckpointManager> manager_;
  std::optional<RunController> controller_;
  std::optional<ValidationExecutor> validations_;
  std::optional<CheckpointCommitter> committer_;
};

const std::vector<std::string> kData{"data-1-0.1"};

TEST_F(CheckpointCommitterTest, NodesKeepTheDataOfOneThatWasGivenUpAndMayYetCome) {
  begin_commit();  // it is committed, but its answer has not come here

  committer_->give_up({Attempt{0}, 1, "no answer"});

  EXPECT_EQ(committer_->keep_on_nodes(), kData);
  io_.restart();
  io_.run();
  ASSERT_EQ(events_.events.size(), 2u);
  EXPECT_TRUE(std::get<CommitFinished>(events_.events[0]).may_come ||
              std::get<CommitFinished>(events_.events[1]).may_come);
  EXPECT_EQ(committer_->keep_on_nodes(), kData);
}

TEST_F(CheckpointCommitterTest, SaysWhyOneCannotBeCommitted) {
  StagedShard shard;
  shard.dir = record_->folder().path() + "/checkpoints/none";
  scope_.spawn(
      "commit",
      committer_->commit(
          {.attempt = Attempt{2}, .checkpoint_seq = 7, .number = 1, .shards = {shard}}, {}));
  io_.run();

  ASSERT_EQ(events_.events.size(), 1u);
  const auto& finished = std::get<CommitFinished>(events_.events[0]);
  EXPECT_EQ(finished.attempt, Attempt{2});
  EXPECT_EQ(finished.checkpoint_seq, 7u);
  EXPECT_NE(finished.error, "");
  EXPECT_FALSE(finished.no_space);
  EXPECT_FALSE(finished.may_come);
  EXPECT_TRUE(record_->checkpoints().list()->empty());
}

TEST_F(CheckpointCommitterTest, NodesDropTheDataOfOneThatWasGivenUpInTime) {
  committer_->give_up({Attempt{0}, 1, "no answer"});
  EXPECT_EQ(committer_->keep_on_nodes(), std::vector<std::string>{});

  begin_commit();
  io_.restart();
  io_.run();

  EXPECT_EQ(committer_->keep_on_nodes(), std::vector<std::string>{});
  EXPECT_TRUE(record_->checkpoints().list()->empty());
}

}  // namespace
}  // namespace train
