// A supervisor whose node does not see the run's storage: the test is its launcher.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/posix_file_system.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

namespace fs = std::filesystem;

class LauncherStorage : public SupervisorWithData {
 protected:
  LauncherStorage() {
    const Prepared prepared =
        prepare([](PrepareAttempt& prepare) { prepare.may_travel = prepare.no_access = true; });
    EXPECT_TRUE(prepared.travels);
  }

  FileBytes read(const std::string& folder, const std::string& path) {
    supervisor_.send(ReadFile{.id = 7, .folder = folder, .path = path, .offset = 1, .bytes = 3});
    auto answer = supervisor_.wait_for<FileBytes>();
    EXPECT_EQ(answer.id, 7u);
    return answer;
  }
};

TEST_F(LauncherStorage, HandsOutThePartsOfItsAttempt) {
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
  write(checkpoints() + "/.tmp-5-3.1/other/state.bin", "no part");
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

/// A committed checkpoint in a folder of the test's, served to the supervisor.
class Restoring : public LauncherStorage {
 protected:
  Restoring() {
    PosixFileSystem files;
    const PendingCheckpoint pending{Epoch{4}, Attempt{2}, Ordinal{1}};
    write(from_ + "/staged/a", "first");
    write(from_ + "/staged/sub/b", std::string(300 << 10, 'b'));
    const auto part = write_part(files, from_, pending, Rank{0}, from_ + "/staged");
    EXPECT_TRUE(part);
    CheckpointStore store(files, from_);
    CommitRequest request{.pending = pending, .number = CheckpointNumber{9}, .parts = {*part}};
    request.created = "2026-11-21T09:38:00.123456Z";
    EXPECT_TRUE(store.commit(request, [] { return Unit{}; }));
    from_ = store.path_of(CheckpointNumber{9});
    StartWorkers start{.run_id = "r1", .world_size = 1, .node_count = 1};
    start.workers = {{.rank = 0, .local_rank = 0}};
    start.command = {"/bin/sh", "-c", "exit 0"};
    start.working_dir = supervisor_.dir();
    start.restore_dir = from_;
    supervisor_.send(start);
  }

  /// Answers until something else is said. Counts what was asked for.
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

}  // namespace
}  // namespace train
