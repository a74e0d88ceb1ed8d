// Downloads checkpoints from nodes' disks to the run's storage once the run has ended.
#include "launcher/cluster/checkpoints/replica_downloader.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <map>
#include <optional>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "tests/unit/launcher_cluster/fakes.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

class ReplicaDownloaderTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1);
    JobSpec spec;
    spec.run_config.name = "vit";
    spec.run_config.storage_path = temp_.path();
    auto record = RunRecord::open(spec, {.build = "test"});
    ASSERT_TRUE(record) << record.error().describe();
    record_ = std::move(*record);
    relay_.emplace(clock_, links_, messages_);
    downloader_.emplace(context_.get_executor(), clock_, disk_, *record_, *relay_, messages_);
  }
  /// Answer as the asked node, with what is on its disk; no answer while nodes are silent.
  void asked(NodeId node, const Frame& frame) {
    const auto request = *decode<ReadFile>(frame);
    if (silent_) return boost::asio::post(context_, [this] { downloader_->cancel(); });
    boost::asio::post(context_, [this, node, request] {
      FileBytes answer{.id = request.id, .offset = request.offset};
      const auto found = on_nodes_.find(request.folder + "/" + request.path);
      if (found == on_nodes_.end()) {
        answer.error = "no such file";
      } else {
        answer.size = found->second.size();
        answer.data = found->second.substr(request.offset, request.bytes);
      }
      relay_->answered(node, answer);
    });
  }
  std::string folder(std::uint64_t number) const {
    return record_->checkpoints().path_of(CheckpointNumber{number});
  }
  /// Put a checkpoint of two ranks, each with a file on the node `n1`.
  void put_checkpoint(std::uint64_t number) {
    Manifest manifest{.checkpoint = CheckpointNumber{number},
                      .generation = Generation{1},
                      .attempt = Attempt{0},
                      .checkpoint_seq = CheckpointSeq{number},
                      .world_size = 2};
    manifest.created = "2026-11-21T09:38:00.123456Z";
    for (const int rank : {0, 1}) {
      const std::string path = shard_name(Rank{rank}) + "/state";
      const std::string location = data_name({Generation{1}, Attempt{0}, CheckpointSeq{number}}) +
                                   "/" + shard_name(Rank{rank});
      const std::string text(300'000, static_cast<char>('a' + rank));
      manifest.files.push_back(
          {path, text.size(), digest_of(text), {Rank{rank}}, location, {"n1"}});
      on_nodes_[location + "/" + path] = text;
    }
    std::filesystem::create_directories(folder(number));
    std::ofstream(folder(number) + "/" + std::string(kManifestName)) << *format_manifest(manifest);
  }
  bool gather() {
    std::optional<bool> all;
    asio::co_spawn(
        context_,
        [](ReplicaDownloader& downloader, std::optional<bool>& into) -> asio::awaitable<void> {
          auto gathering = downloader.gather();
          into = co_await std::move(gathering);
        }(*downloader_, all),
        [](const std::exception_ptr&) {});
    context_.restart();
    context_.run_for(std::chrono::seconds(60));
    EXPECT_TRUE(all) << "it did not end";
    return all.value_or(false);
  }

  TempFolder temp_;
  SystemClock clock_;
  boost::asio::io_context context_;
  boost::asio::thread_pool disk_{1};
  std::unique_ptr<RunRecord> record_;
  FakeLinks links_{{NodeId{0}, NodeId{1}},
                   [this](NodeId node, const Frame& frame) { asked(node, frame); }};
  RecordedMessages messages_;
  std::optional<FileRelay> relay_;
  std::optional<ReplicaDownloader> downloader_;
  std::map<std::string, std::string> on_nodes_;
  bool silent_ = false;
};

TEST_F(ReplicaDownloaderTest, WithoutCheckpointsThereIsNothingToBring) {
  EXPECT_TRUE(gather());
  EXPECT_EQ(messages_.phases, std::vector<std::string>{});
}

TEST_F(ReplicaDownloaderTest, BringsAllThatLiesOnNodes) {
  put_checkpoint(1);
  put_checkpoint(2);

  EXPECT_TRUE(gather());

  EXPECT_EQ(messages_.phases,
            std::vector<std::string>{"bringing 2 checkpoints (1.1 MiB) from n1 to '" +
                                     record_->checkpoints().folder() + "'"});
  EXPECT_EQ(messages_.warnings, std::vector<std::string>{});
  PosixFileSystem files;
  for (const std::uint64_t number : {1, 2}) {
    const auto verified = verify_checkpoint(files, folder(number));
    ASSERT_TRUE(verified) << verified.error().describe();
    EXPECT_TRUE(verified->nodes().empty());
    EXPECT_EQ(text_of(folder(number) + "/rank-0001/state"), std::string(300'000, 'b'));
  }
  messages_.phases.clear();
  EXPECT_TRUE(gather());  // all are here
  EXPECT_EQ(messages_.phases, std::vector<std::string>{});
}

TEST_F(ReplicaDownloaderTest, OneThatNoNodeHasAnyMoreIsNamedAndTheOthersCome) {
  put_checkpoint(1);
  put_checkpoint(2);
  on_nodes_.erase("data-1-0.2/rank-0000/rank-0000/state");

  EXPECT_FALSE(gather());

  ASSERT_EQ(messages_.warnings.size(), 1u);
  EXPECT_TRUE(messages_.warnings[0].starts_with("checkpoint_000002 stays on n1: "))
      << messages_.warnings[0];
  EXPECT_TRUE(messages_.warnings[0].ends_with("(`train-run resume` finds it there, for a week)"))
      << messages_.warnings[0];
  PosixFileSystem files;
  EXPECT_TRUE(verify_checkpoint(files, folder(1)));
}

TEST_F(ReplicaDownloaderTest, OneWhoseManifestCannotBeReadStaysOnItsNodes) {
  put_checkpoint(1);
  put_checkpoint(2);
  std::ofstream(folder(2) + "/" + std::string(kManifestName)) << "damaged";

  EXPECT_FALSE(gather());

  ASSERT_EQ(messages_.warnings.size(), 1u);
  EXPECT_TRUE(messages_.warnings[0].starts_with("checkpoint_000002 cannot be read: "))
      << messages_.warnings[0];
  EXPECT_TRUE(messages_.warnings[0].ends_with(" (what nodes have of it stays there for a week)"))
      << messages_.warnings[0];
  PosixFileSystem files;
  EXPECT_TRUE(verify_checkpoint(files, folder(1)));
  EXPECT_FALSE(gather());  // although nothing is left to bring
}

TEST_F(ReplicaDownloaderTest, WhoIsInARushLeavesThemThere) {
  put_checkpoint(1);
  silent_ = true;

  EXPECT_FALSE(gather());

  ASSERT_EQ(messages_.warnings.size(), 1u);
  EXPECT_NE(messages_.warnings[0].find("it was interrupted"), std::string::npos)
      << messages_.warnings[0];
}

}  // namespace
}  // namespace train
