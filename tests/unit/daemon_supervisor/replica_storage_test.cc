// A supervisor whose checkpoints stay on nodes' disks. The test acts as its launcher and as the
// nodes that the launcher asks.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/posix_file_system.h"
#include "lib/wire/worker_messages.h"
#include "tests/unit/daemon_supervisor/worker_link.h"

namespace train {
namespace {

namespace fs = std::filesystem;

class ReplicaStorageTest : public SupervisorWithData {
 protected:
  ReplicaStorageTest() {
    EXPECT_FALSE(prepare([](PrepareAttempt& prepare) { prepare.replicas = 2; }).relayed);
  }

  std::string text_of(const std::string& path) const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void offer(const std::string& folder, const std::string& path, const std::string& text) {
    offered_[{folder, path}] = text;
  }
  CheckpointFile listed(const std::string& path, const std::string& text) const {
    return {path, text.size(), digest_of(text)};
  }
  /// Answer read requests from the offered files until another message comes.
  Frame serve() {
    for (;;) {
      Frame frame = supervisor_.next();
      if (frame.type != MessageType::ReadFile) return frame;
      const auto request = *decode<ReadFile>(frame);
      ++asked_[request.folder + "/" + request.path];
      FileBytes answer{.id = request.id, .offset = request.offset};
      if (const auto found = offered_.find({request.folder, request.path});
          found != offered_.end()) {
        answer.size = found->second.size();
        answer.data = found->second.substr(request.offset, request.bytes);
      } else {
        answer.error = request.path + " is on no node";
        answer.error_code = "corrupt";
      }
      supervisor_.send(answer);
    }
  }
  ShardKept keep(const std::string& dir, std::vector<CheckpointFile> files,
                 std::uint64_t index = 1) {
    supervisor_.send(KeepShard{{Rank{4}, dir, std::move(files)}, index});
    const Frame frame = serve();
    EXPECT_EQ(frame.type, MessageType::ShardKept);
    return *decode<ShardKept>(frame);
  }
  bool gone(const std::string& path) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (fs::exists(path) && std::chrono::steady_clock::now() < until) supervisor_answers();
    return !fs::exists(path);
  }
  /// Do a round trip: then what was sent before is done, except for the disk's work.
  void supervisor_answers() {
    supervisor_.send(ReadFile{.id = 1, .folder = "none", .path = "none"});
    (void)supervisor_.wait_for<FileBytes>();
  }

  std::map<std::pair<std::string, std::string>, std::string> offered_;
  std::map<std::string, int> asked_;
};

TEST_F(ReplicaStorageTest, KeepsACopyOfAnotherNodesShard) {
  const std::string text(300 << 10, 'x');
  offer("data-5-3.1/rank-0004", "sub/state.bin", text);

  const ShardKept kept = keep("data-5-3.1/rank-0004", {listed("sub/state.bin", text)});

  EXPECT_EQ(kept.error, "");
  EXPECT_EQ(kept.rank, 4);
  EXPECT_EQ(kept.checkpoint_seq, 1u);
  EXPECT_TRUE(text_of(checkpoints() + "/data-5-3.1/rank-0004/sub/state.bin") == text);
  // A launcher that has not heard the answer asks again: nothing is read twice.
  asked_.clear();
  EXPECT_EQ(keep("data-5-3.1/rank-0004", {listed("sub/state.bin", text)}).error, "");
  EXPECT_TRUE(asked_.empty());
}

TEST_F(ReplicaStorageTest, SaysWhatIsWrongWithOneThatItCannotKeep) {
  offer("data-5-3.1/rank-0004", "a", "fIrst");

  EXPECT_TRUE(keep("data-5-3.1/rank-0004", {listed("a", "first")})
                  .error.starts_with("'a' came with 5 bytes and xxh3-128 "));
  EXPECT_EQ(keep("data-5-3.2/rank-0004", {listed("b", "b")}, 2).error_code, "corrupt");
  EXPECT_EQ(keep("data-5-2.1/rank-0004", {listed("a", "a")}).error,
            "'data-5-2.1/rank-0004' is not a shard of attempt 3");
  EXPECT_EQ(keep("data-5-3.1/../..", {listed("a", "a")}).error_code, "invalid_argument");
  EXPECT_EQ(keep("data-5-3.1/rank-0004", {listed("../../a", "a")}).error_code, "invalid_argument");
}

TEST_F(ReplicaStorageTest, RemovesWhatIsNotKeptAndNothingNewer) {
  for (const char* made : {"data-5-3.1", "data-5-3.2", "data-5-3.3", "data-4-2.7", "data-4-2.8",
                           "checkpoint_000001", "checkpoint_000002"})
    write(checkpoints() + "/" + made + "/rank-0000/a", "a");

  supervisor_.send(CheckpointOutcome{.checkpoint_seq = 2,
                                     .path = "checkpoint_000009",
                                     .error = "",
                                     .keep = {"data-5-3.2", "data-4-2.8", "checkpoint_000002"}});

  for (const char* made : {"data-5-3.1", "data-4-2.7", "checkpoint_000001"})
    EXPECT_TRUE(gone(checkpoints() + "/" + made)) << made;
  for (const char* made : {"data-5-3.2", "data-5-3.3", "data-4-2.8", "checkpoint_000002"})
    EXPECT_TRUE(fs::exists(checkpoints() + "/" + made)) << made;
}

/// A worker whose shards stay on its node.
class ReplicaWorker : public WorkerLink {
 protected:
  void SetUp() override {
    supervisor_.order().replicas = 1;
    WorkerLink::SetUp();
  }
  CheckpointStaged staged(std::uint64_t index, const std::string& text) {
    CheckpointStaged message;
    message.checkpoint_seq = index;
    message.report_seq = 9;
    message.dir = staging_ + "/ckpt-" + std::to_string(index);
    fs::create_directories(message.dir);
    std::ofstream(message.dir + "/state") << text;
    return message;
  }
};

TEST_F(ReplicaWorker, ItsShardLiesWhereOtherNodesMayAskForIt) {
  const std::string data = supervisor_.dir() + "/data/checkpoints/";
  say(staged(1, "hello"));

  const auto shard = supervisor_.wait_for<ShardWritten>();

  EXPECT_EQ(shard.error, "");
  EXPECT_TRUE(shard.on_node);
  EXPECT_EQ(shard.checkpoint_seq, 1u);
  EXPECT_EQ(shard.report_seq, 9u);
  EXPECT_EQ(shard.dir, "data-0-3.1/rank-0000");
  ASSERT_EQ(shard.files.size(), 1u);
  EXPECT_EQ(shard.files[0].path, "state");
  EXPECT_EQ(shard.files[0].bytes, 5u);
  EXPECT_TRUE(fs::exists(data + "data-0-3.1/rank-0000/state"));
  EXPECT_FALSE(fs::exists(data + ".tmp-0-3.1"));
  EXPECT_FALSE(fs::exists(staging_ + "/ckpt-1"));
}

TEST_F(ReplicaWorker, OfAShardThatItCouldNotMakeTheLauncherHearsWhy) {
  CheckpointStaged failed = staged(1, "half");
  failed.error = "the disk is full";
  failed.error_code = "no_space";
  say(failed);

  const auto shard = supervisor_.wait_for<ShardWritten>();

  EXPECT_EQ(shard.error, "the disk is full");
  EXPECT_TRUE(shard.no_space);
  EXPECT_FALSE(fs::exists(supervisor_.dir() + "/data/checkpoints/data-0-3.1"));
}

/// A checkpoint that only nodes have; this node has a file of one shard.
class Gathering : public ReplicaStorageTest {
 protected:
  Gathering() {
    Manifest manifest{.checkpoint = CheckpointNumber{9},
                      .generation = Generation{4},
                      .attempt = Attempt{2},
                      .checkpoint_seq = CheckpointSeq{1},
                      .world_size = 2};
    manifest.created = "2026-11-21T09:38:00.123456Z";
    for (int rank : {0, 1}) {
      const std::string path = shard_name(Rank{rank}) + "/state", text = path + " of 9";
      const std::string location = "data-4-2.1/" + shard_name(Rank{rank});
      manifest.files.push_back(
          {path, text.size(), digest_of(text), {Rank{rank}}, location, {"n7"}});
      offer(location, path, text);
    }
    offer(from_, std::string(kManifestName), *format_manifest(manifest));
    write(checkpoints() + "/data-4-2.1/rank-0000/rank-0000/state", "rank-0000/state of 9");
  }
  Frame start() {
    StartWorkers start{.run = {.run_id = "r1"}, .workers = {WorkerRanks{}}};
    start.command = {"/bin/sh", "-c", "exit 0"};
    start.working_dir = supervisor_.dir();
    start.run.restore_dir = from_;
    supervisor_.send(start);
    return serve();
  }

  const std::string from_ = "/storage/vit/checkpoints/checkpoint_000009";
};

TEST_F(Gathering, ItIsACheckpointHereBeforeWorkersStart) {
  EXPECT_EQ(start().type, MessageType::WorkersStarted);

  PosixFileSystem files;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(checkpoints()))
    if (entry.path().filename().string().starts_with(".from-")) folders.push_back(entry.path());
  ASSERT_EQ(folders.size(), 1u);
  const auto verified = verify_checkpoint(files, folders[0]);
  ASSERT_TRUE(verified) << verified.error().describe();
  EXPECT_TRUE(verified->nodes().empty());
  EXPECT_EQ(asked_["data-4-2.1/rank-0000/rank-0000/state"], 0);
  EXPECT_EQ(asked_["data-4-2.1/rank-0001/rank-0001/state"], 1);
  // Other nodes may now read it from this one.
  EXPECT_EQ(text_of(checkpoints() + "/data-4-2.1/rank-0001/rank-0001/state"),
            "rank-0001/state of 9");
}

TEST_F(Gathering, AFileThatNoNodeHasIsNamed) {
  offered_.erase({"data-4-2.1/rank-0001", "rank-0001/state"});

  const Frame frame = start();

  ASSERT_EQ(frame.type, MessageType::StartFailed);
  const auto failed = *decode<StartFailed>(frame);
  EXPECT_EQ(failed.code, "corrupt");
  EXPECT_TRUE(failed.message.ends_with("rank-0001/state is on no node")) << failed.message;
}

}  // namespace
}  // namespace train
