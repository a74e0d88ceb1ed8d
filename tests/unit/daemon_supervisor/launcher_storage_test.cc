// A supervisor whose node does not see the run's storage; the test acts as its launcher.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/posix_file_system.h"
#include "lib/wire/worker_messages.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"
#include "tests/unit/daemon_supervisor/worker_link.h"

namespace train {
namespace {

namespace fs = std::filesystem;

class LauncherStorage : public SupervisorWithData {
 protected:
  LauncherStorage() {
    const Prepared prepared =
        prepare([](PrepareAttempt& prepare) { prepare.may_relay = prepare.no_access = true; });
    EXPECT_TRUE(prepared.relayed);
  }

  FileBytes read(const std::string& folder, const std::string& path) {
    supervisor_.send(ReadFile{.id = 7, .folder = folder, .path = path, .offset = 1, .bytes = 3});
    auto answer = supervisor_.wait_for<FileBytes>();
    EXPECT_EQ(answer.id, 7u);
    return answer;
  }
};

TEST_F(LauncherStorage, HandsOutTheShardsOfItsAttempt) {
  write(checkpoints() + "/.tmp-5-3.1/.rank-0000/sub/state.bin", "hello");

  const FileBytes answer = read(".tmp-5-3.1/.rank-0000", "sub/state.bin");

  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.data, "ell");
  EXPECT_EQ(answer.size, 5u);
  EXPECT_EQ(answer.offset, 1u);
}

TEST_F(LauncherStorage, HandsOutNothingElse) {
  write(checkpoints() + "/.tmp-5-2.1/.rank-0000/state.bin", "of another attempt");
  write(checkpoints() + "/.tmp-5-3.1/.rank-0000/.hidden", "hidden");
  write(checkpoints() + "/.tmp-5-3.1/other/state.bin", "no shard");
  write(supervisor_.dir() + "/secret", "secret");
  fs::create_symlink(supervisor_.dir() + "/secret", checkpoints() + "/.tmp-5-3.1/.rank-0000/link");
  fs::create_directory_symlink(supervisor_.dir(), checkpoints() + "/.tmp-5-3.1/.rank-0001");

  const std::vector<std::pair<std::string, std::string>> others{
      {".tmp-5-2.1/.rank-0000", "state.bin"},
      {".tmp-5-3.1/.rank-0000", ".hidden"},
      {".tmp-5-3.1/other", "state.bin"},
      {".tmp-5-3.1/.rank-0000", "link"},
      {".tmp-5-3.1/.rank-0001", "secret"},
      {".tmp-5-3.1/.rank-0000", "../../../../secret"},
      {".tmp-5-3.1/.rank-0000/..", "secret"},
      {".tmp-5-3.1/..", "secret"},
      {"..", "secret"},
      {"", "secret"},
      {supervisor_.dir(), "secret"}};
  for (const auto& [folder, path] : others) {
    const FileBytes answer = read(folder, path);
    EXPECT_EQ(answer.error_code, "invalid_argument") << folder << " " << path;
    EXPECT_EQ(answer.data, "") << folder << " " << path;
  }
}

/// Return whether the file vanishes, once the supervisor's disk work is done.
bool goes(const std::string& path) {
  return fakes::eventually([&] { return !fs::exists(path); });
}

TEST_F(LauncherStorage, WhatWasMadeHereOfACommittedCheckpointStaysAndOlderOnesGo) {
  write(checkpoints() + "/.tmp-5-3.2/.rank-0000/state", "0");
  write(checkpoints() + "/.tmp-5-3.2/.rank-0001/rank-0001/deep/rng", "1");
  write(checkpoints() + "/checkpoint_000007/state", "here already");
  for (const char* made :
       {"checkpoint_000001", "checkpoint_000002", ".from-0123456789abcdef", ".tmp-5-3.3", "other"})
    write(checkpoints() + "/" + made + "/state", "x");

  supervisor_.send(
      CheckpointOutcome{.checkpoint_seq = 2,
                        .path = supervisor_.dir() + "/nowhere/checkpoints/checkpoint_000007",
                        .error = "",
                        .keep = {"checkpoint_000002"}});

  EXPECT_TRUE(goes(checkpoints() + "/.tmp-5-3.2"));
  EXPECT_TRUE(fs::exists(checkpoints() + "/checkpoint_000007/rank-0001/deep/rng"));
  std::string text;
  std::ifstream(checkpoints() + "/checkpoint_000007/state") >> text;
  EXPECT_EQ(text, "here");
  for (const char* made : {"checkpoint_000001", ".from-0123456789abcdef"})
    EXPECT_FALSE(fs::exists(checkpoints() + "/" + made)) << made;
  for (const char* made : {"checkpoint_000002", ".tmp-5-3.3", "other"})
    EXPECT_TRUE(fs::exists(checkpoints() + "/" + made)) << made;
}

TEST_F(LauncherStorage, ACheckpointThatIsNotTheRunsOwnHasAnotherName) {
  write(checkpoints() + "/.tmp-5-3.2/.rank-0000/state", "0");

  supervisor_.send(CheckpointOutcome{.checkpoint_seq = 2,
                                     .path = "/other/checkpoints/checkpoint_000007",
                                     .error = "",
                                     .keep = {}});

  EXPECT_TRUE(goes(checkpoints() + "/.tmp-5-3.2"));
  EXPECT_FALSE(fs::exists(checkpoints() + "/checkpoint_000007"));
  int elsewhere = 0;
  for (const auto& entry : fs::directory_iterator(checkpoints()))
    elsewhere += entry.path().filename().string().starts_with(".from-") ? 1 : 0;
  EXPECT_EQ(elsewhere, 1);
}

TEST_F(LauncherStorage, OfACheckpointThatIsNotToBeNothingStays) {
  write(checkpoints() + "/.tmp-5-3.2/.rank-0000/state", "0");
  write(checkpoints() + "/.tmp-5-3.3/.rank-0000/state", "0");
  write(checkpoints() + "/checkpoint_000001/state", "x");

  supervisor_.send(
      CheckpointOutcome{.checkpoint_seq = 2, .path = "", .error = "no space", .keep = {}});

  EXPECT_TRUE(goes(checkpoints() + "/.tmp-5-3.2"));
  EXPECT_TRUE(fs::exists(checkpoints() + "/.tmp-5-3.3/.rank-0000/state"));
  EXPECT_TRUE(fs::exists(checkpoints() + "/checkpoint_000001/state"));
}

TEST_F(LauncherStorage, WithItsAttemptEverythingThatIsPendingGoes) {
  for (const char* made : {".tmp-5-3.2", ".tmp-5-4.1", ".staging-3", "checkpoint_000001"})
    write(checkpoints() + "/" + made + "/state", "x");

  supervisor_.send(ReleaseAttempt{});

  EXPECT_EQ(supervisor_.wait_for_end(), 0);
  EXPECT_FALSE(fs::exists(checkpoints() + "/.tmp-5-3.2"));
  EXPECT_FALSE(fs::exists(checkpoints() + "/.staging-3"));
  EXPECT_TRUE(fs::exists(checkpoints() + "/.tmp-5-4.1"));
  EXPECT_TRUE(fs::exists(checkpoints() + "/checkpoint_000001"));
}

/// A worker whose shards wait on its node for the launcher.
class RelayedWorker : public WorkerLink {
 protected:
  void SetUp() override {
    supervisor_.order().may_relay = supervisor_.order().no_access = true;
    supervisor_.order().storage_marker = "mark";
    WorkerLink::SetUp();
  }
};

TEST_F(RelayedWorker, OfAShardThatCannotBeStoredNothingStaysStaged) {
  const CheckpointStaged message{.checkpoint_seq = 1, .dir = staging_ + "/ckpt-1"};
  fs::create_directories(message.dir);
  std::ofstream(message.dir + "/state") << "state";
  fs::create_symlink("state", message.dir + "/link");

  say(message);

  const auto shard = supervisor_.wait_for<ShardWritten>();
  EXPECT_TRUE(shard.on_node);
  EXPECT_NE(shard.error, "");
  EXPECT_FALSE(fs::exists(message.dir));
}

/// The folder for the run's data exists before this attempt.
class OlderData : public SupervisorWithData {
 protected:
  OlderData() {
    write(checkpoints() + "/checkpoint_000001/state", "x");
    fs::permissions(supervisor_.dir() + "/data", fs::perms::owner_all);
  }
  static void relay(PrepareAttempt& order) { order.may_relay = order.no_access = true; }
};

TEST_F(OlderData, OfAttemptsBeforeOnlyCommittedCheckpointsStay) {
  for (const char* made : {".tmp-5-2.1", ".tmp-4-1.7", ".tmp-5-3.1", ".staging-2", ".staging-3"})
    write(checkpoints() + "/" + made + "/state", "x");

  prepare(relay);

  for (const char* made : {".tmp-5-2.1", ".tmp-4-1.7", ".staging-2"})
    EXPECT_FALSE(fs::exists(checkpoints() + "/" + made)) << made;
  for (const char* made : {".tmp-5-3.1", ".staging-3", "checkpoint_000001"})
    EXPECT_TRUE(fs::exists(checkpoints() + "/" + made)) << made;
}

TEST_F(OlderData, AFolderThatOthersMayChangeIsNotUsed) {
  fs::permissions(supervisor_.dir() + "/data", fs::perms::all);
  supervisor_.attach(5);
  PrepareAttempt order{.local_world_size = 1, .generation = 5};
  order.run_dir = supervisor_.dir() + "/nowhere";
  order.storage_marker = "mark";
  relay(order);

  supervisor_.send(order);

  EXPECT_EQ(supervisor_.wait_for<StartFailed>().code, "permission");
}

/// A committed checkpoint in the test's folder, which the test serves to the supervisor.
class Restoring : public LauncherStorage {
 protected:
  Restoring() {
    PosixFileSystem files;
    const PendingCheckpoint pending{Generation{4}, Attempt{2}, CheckpointSeq{1}};
    write(from_ + "/staged/a", "first");
    write(from_ + "/staged/sub/b", std::string(300 << 10, 'b'));
    const auto shard = write_shard(files, from_, pending, Rank{0}, from_ + "/staged");
    EXPECT_TRUE(shard);
    CheckpointStore store(files, from_);
    CommitRequest request{.pending = pending, .number = CheckpointNumber{9}, .shards = {*shard}};
    request.created = "2026-11-21T09:38:00.123456Z";
    EXPECT_TRUE(store.commit(request, [] { return Unit{}; }));
    from_ = store.path_of(CheckpointNumber{9});
    StartWorkers start{.run = {.run_id = "r1"}, .workers = {WorkerRanks{}}};
    start.command = {"/bin/sh", "-c", "exit 0"};
    start.working_dir = supervisor_.dir();
    start.run.restore_dir = from_;
    supervisor_.send(start);
  }

  /// Answer read requests until another message comes, and count the requests.
  Frame serve() {
    for (;;) {
      Frame frame = supervisor_.next();
      if (frame.type != MessageType::ReadFile) return frame;
      const auto request = *decode<ReadFile>(frame);
      EXPECT_EQ(request.folder, from_);
      ++asked_[request.path];
      std::ifstream file(from_ + "/" + request.path, std::ios::binary);
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      FileBytes answer;
      answer.id = request.id;
      answer.offset = request.offset;
      answer.size = text.size();
      answer.data = text.substr(request.offset, request.bytes);
      supervisor_.send(answer);
    }
  }

  /// Answer read requests until a message of this kind comes.
  template <class Message>
  Message serve_until() {
    for (;;) {
      const Frame frame = serve();
      if (frame.type == Message::kType) return *decode<Message>(frame);
    }
  }

  std::string from_ = supervisor_.dir() + "/elsewhere";
  std::map<std::string, int> asked_;
};

TEST_F(Restoring, BringsTheCheckpointHereBeforeWorkersStart) {
  const Frame next = serve();

  EXPECT_EQ(next.type, MessageType::WorkersStarted);
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(checkpoints())) {
    if (entry.path().filename().string().starts_with(".from-")) folders.push_back(entry.path());
  }
  ASSERT_EQ(folders.size(), 1u);
  PosixFileSystem files;
  EXPECT_TRUE(verify_checkpoint(files, folders[0]));
  EXPECT_EQ(asked_["a"], 1);
}

TEST_F(Restoring, NamesAFileThatIsAnotherOne) {
  write(from_ + "/a", "fIrst");

  const Frame next = serve();

  ASSERT_EQ(next.type, MessageType::StartFailed);
  const auto failed = *decode<StartFailed>(next);
  EXPECT_EQ(failed.code, "corrupt");
  EXPECT_TRUE(failed.message.starts_with("bringing '" + from_ + "' to this node: 'a' came with 5"))
      << failed.message;
}

TEST_F(Restoring, AsksTheNextLauncherForWhatTheLastOneDidNotAnswer) {
  ASSERT_EQ(supervisor_.next().type, MessageType::ReadFile);  // lost

  supervisor_.reconnect();
  supervisor_.attach(6);
  EXPECT_EQ(supervisor_.wait_for<AttemptSnapshot>().phase, "prepared");
  (void)supervisor_.wait_for<Prepared>();
  const Frame next = serve();

  EXPECT_EQ(next.type, MessageType::WorkersStarted);
}

TEST_F(Restoring, AnOrderToValidateThatComesAgainBringsTheCheckpointHereOnce) {
  ASSERT_EQ(serve().type, MessageType::WorkersStarted);
  asked_.clear();
  const RunValidation order{.checkpoint = 9, .dir = from_, .command = {"/bin/sh", "-c", "exit 3"}};

  supervisor_.send(order);
  supervisor_.send(order);

  const auto ended = serve_until<ValidationEnded>();
  EXPECT_EQ(ended.error, "it exited with 3");
  EXPECT_EQ(asked_[".manifest.json"], 1);
}

TEST_F(Restoring, WhatCannotBeBroughtHereIsNoLongerSaidOfAnOlderOrder) {
  ASSERT_EQ(serve().type, MessageType::WorkersStarted);

  supervisor_.send(RunValidation{.checkpoint = 8, .dir = supervisor_.dir() + "/gone"});
  const auto request = supervisor_.wait_for<ReadFile>();
  supervisor_.send(
      RunValidation{.checkpoint = 9, .dir = from_, .command = {"/bin/sh", "-c", "exit 3"}});
  supervisor_.send(FileBytes{.id = request.id, .error = "it is gone", .error_code = "not_found"});

  EXPECT_EQ(serve_until<ValidationEnded>().checkpoint, 9u);
}

}  // namespace
}  // namespace train
