// The real file system: the guarantees of its calls, a second owner, and a writer that is killed at
// random points.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <sstream>

#include "lib/storage/checkpoint_export.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_folder.h"
#include "lib/storage/run_lock.h"

namespace {
bool lacks_noreplace = false;
}

// Replaces renameat2() of libc, so that a test can act as if it used a file system like NFS.
extern "C" int renameat2_like_nfs(int from_folder, const char* from, int to_folder, const char* to,
                                  unsigned int flags) noexcept asm("renameat2");
int renameat2_like_nfs(int from_folder, const char* from, int to_folder, const char* to,
                       unsigned int flags) noexcept {
  if (lacks_noreplace && flags != 0) return errno = EINVAL, -1;
  return static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

namespace train {
namespace {

class Posix : public ::testing::Test {
 protected:
  Posix() {
    std::string pattern = ::testing::TempDir() + "storage-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~Posix() override { std::filesystem::remove_all(folder); }
  std::string in(const std::string& name) const { return folder + "/" + name; }
  void put(const std::string& name, std::string_view text) {
    ASSERT_FALSE(write_small_file(fs, in(name), text).has_error());
  }

  PosixFileSystem fs;
  std::string folder;
};

TEST_F(Posix, WhoeverMayReadALockSeesWhetherItIsHeld) {
  EXPECT_FALSE(*is_held(in(".lock")));
  EXPECT_FALSE(std::filesystem::exists(in(".lock")));
  std::optional<Result<RunLock>> lock(RunLock::acquire(fs, in(".lock"), {"here", 1, "now"}));
  ASSERT_TRUE(*lock);
  ASSERT_EQ(::chmod(folder.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(in(".lock").c_str(), 0644), 0);
  const bool root = ::geteuid() == 0;

  if (root) ASSERT_EQ(::seteuid(65534), 0);
  const auto held = is_held(in(".lock"));
  lock.reset();
  const auto left = is_held(in(".lock"));
  if (root) ASSERT_EQ(::seteuid(0), 0);

  EXPECT_TRUE(held && *held) << held.error().describe();
  EXPECT_FALSE(*left);
}

TEST_F(Posix, NewNamesAreExclusive) {
  put("a", "1");
  put("b", "2");
  ASSERT_FALSE(fs.make_folder(in("f")).has_error());

  EXPECT_EQ(fs.create(in("a")).error(),
            (Error{Errc::AlreadyExists, "creating '" + in("a") + "': File exists"}));
  EXPECT_EQ(
      fs.rename_new(in("a"), in("b")).error(),
      (Error{Errc::AlreadyExists, "renaming '" + in("a") + "' to '" + in("b") + "': File exists"}));
  EXPECT_EQ(fs.make_folder(in("f")).error().code, Errc::AlreadyExists);
  EXPECT_FALSE(fs.rename_new(in("a"), in("c")).has_error());
  EXPECT_EQ(*read_small_file(fs, in("c"), 10), "1");
  EXPECT_EQ(read_small_file(fs, in("a"), 10).error().code, Errc::NotFound);
  EXPECT_EQ(*fs.list(folder),
            (std::vector<FolderEntry>{
                {"b", FileKind::File}, {"c", FileKind::File}, {"f", FileKind::Folder}}));
}

TEST_F(Posix, MovesANewFileWhereRenameMayReplaceOne) {
  put("a", "a");
  put("b", "b");
  put("c", "c");
  ASSERT_EQ(::link(in("c").c_str(), in("d").c_str()), 0);  // killed before it removed the old name
  lacks_noreplace = true;

  const auto refused = fs.rename_new(in("a"), in("b"));
  const auto itself = fs.rename_new(in("b"), in("b"));
  const auto moved = fs.rename_new(in("a"), in("e"));
  const auto finished = fs.rename_new(in("c"), in("d"));
  lacks_noreplace = false;

  EXPECT_EQ(refused.error().code, Errc::AlreadyExists);
  EXPECT_EQ(itself.error().code, Errc::AlreadyExists);
  EXPECT_TRUE(moved) << moved.error().describe();
  EXPECT_TRUE(finished) << finished.error().describe();
  EXPECT_EQ(*read_small_file(fs, in("b"), 9), "b");
  EXPECT_EQ(*read_small_file(fs, in("d"), 9), "c");
  EXPECT_EQ(*read_small_file(fs, in("e"), 9), "a");
  EXPECT_EQ(fs.list(folder)->size(), 3u);
}

TEST_F(Posix, FollowsNoLinks) {
  put("secret", "x");
  std::filesystem::create_symlink(in("secret"), in("link"));
  ASSERT_FALSE(fs.make_folder(in("staged")).has_error());
  std::filesystem::create_symlink(in("secret"), in("staged/model.pt"));

  EXPECT_TRUE(fs.open_to_read(in("link")).has_error());
  EXPECT_EQ(fs.status(in("link"))->kind, FileKind::Other);
  EXPECT_EQ(write_shard(fs, in("checkpoints"), {Generation{1}, Attempt{0}, CheckpointSeq{1}},
                        Rank{0}, in("staged"))
                .error(),
            (Error{Errc::InvalidArgument,
                   "'model.pt' in '" + in("staged") + "' is neither a file nor a folder",
                   "a checkpoint holds files and folders only: write a copy instead of a link"}));
  ASSERT_FALSE(remove_tree(fs, in("staged")).has_error());
  EXPECT_EQ(*read_small_file(fs, in("secret"), 10), "x");
}

TEST_F(Posix, FoldersMayBeReachedThroughALink) {
  ASSERT_FALSE(fs.make_folder(in("real")).has_error());
  std::filesystem::create_directory_symlink(in("real"), in("results"));
  EXPECT_EQ(create_run_folder(fs, in("results"), "vit")->path(), in("results/vit"));
  EXPECT_EQ(create_run_folder(fs, in("results/sub"), "vit")->path(), in("results/sub/vit"));
}

TEST_F(Posix, ALockHoldsUntilItsOwnerDies) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto lock = RunLock::acquire(fs, in(".lock"), {"node-a", 4242, "noon"});
    if (lock.has_error() || ::write(ready[1], "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);

  EXPECT_EQ(RunLock::acquire(fs, in(".lock"), {"node-b", 7, "one"}).error().message,
            "the run in '" + folder + "' is held by process 4242 on node-a since noon");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(RunLock::acquire(fs, in(".lock"), {"node-b", 7, "one"}).has_error());
  ::close(ready[0]);
  ::close(ready[1]);
}

/// Files whose locks somebody looks at, and so holds for a moment.
class LookedAt final : public PosixFileSystem {
 public:
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    if (++calls < 3) return Error{Errc::Unavailable, "somebody looks at it"};
    return PosixFileSystem::lock(path);
  }
  int calls = 0;
};

TEST_F(Posix, ALockThatSomebodyLooksAtIsTakenALittleLater) {
  LookedAt files;

  const auto taken = RunLock::acquire(files, in(".lock"), {"node-b", 7, "one"});

  EXPECT_TRUE(taken) << taken.error().describe();
  EXPECT_EQ(files.calls, 3);
}

TEST_F(Posix, OfTwoThatTakeARunOverOneIsTold) {
  auto other = fs.lock(in(".lock.new"));
  ASSERT_TRUE(other);
  put(".lock", "");

  EXPECT_EQ(
      RunLock::take_over(fs, in(".lock"), {"node-b", 7, "one"}).error(),
      (Error{Errc::AlreadyExists, "another process is just taking over the run in '" + folder + "'",
             "follow it with train-run attach"}));

  other->reset();
  EXPECT_TRUE(RunLock::take_over(fs, in(".lock"), {"node-b", 7, "one"}));
  EXPECT_FALSE(std::filesystem::exists(in(".lock.new")));
}

// An export empties only what it may have made itself.
TEST_F(Posix, AnExportFollowsNoLinkAndTakesNoOtherUsersFolder) {
  std::filesystem::create_directories(in("victim"));
  std::filesystem::create_directories(in("staged"));
  put("victim/thesis.tex", "kept");
  put("victim/.lock", "");
  put("staged/model.pt", "m");
  constexpr PendingCheckpoint kPending{Generation{1}, Attempt{0}, CheckpointSeq{1}};
  CheckpointStore store(fs, in("checkpoints"));
  ASSERT_TRUE(store.open(Generation{1}));
  const auto shard = write_shard(fs, in("checkpoints"), kPending, Rank{0}, in("staged"));
  ASSERT_TRUE(shard);
  CommitRequest request{.pending = kPending, .number = CheckpointNumber{1}, .world_size = 1};
  request.shards = {*shard};
  request.created = "2026-11-21T09:38:00.123456Z";
  ASSERT_TRUE(store.commit(request, [] { return Unit{}; }));
  const auto why = [&] {
    return export_checkpoint(fs, store.path_of(CheckpointNumber{1}), fs, in("copy"))
        .error()
        .message;
  };
  const std::string first = "the files are first copied to '" + in(".copy.tmp") + "', which ";

  std::filesystem::create_directory_symlink(in("victim"), in(".copy.tmp"));
  EXPECT_EQ(why(), first + "exists and is not a directory");
  std::filesystem::remove(in(".copy.tmp"));

  if (::geteuid() == 0) {
    std::filesystem::create_directories(in(".copy.tmp"));
    ASSERT_EQ(::chown(in(".copy.tmp").c_str(), 65534, 65534), 0);
    EXPECT_EQ(why(), first + "another user owns");
  }
  EXPECT_TRUE(std::filesystem::exists(in("victim/thesis.tex")));
}

TEST_F(Posix, AStorageThatIsAFileIsNamedAndNotTheNamesInIt) {
  put("results", "a file");

  const auto made = create_unique_run_folder(fs, in("results"), "vit");

  EXPECT_EQ(made.error().message, "'" + in("results") + "' is not a folder");
}

TEST_F(Posix, WhatIsMissingIsOnNoFileSystem) {
  EXPECT_TRUE(*fs.same_file_system(folder, folder));
  EXPECT_EQ(fs.same_file_system(in("none"), folder).error().code, Errc::NotFound);
  EXPECT_EQ(fs.same_file_system(folder, in("none")).error().code, Errc::NotFound);
}

TEST_F(Posix, SaysWhatADeviceCannotDo) {
  auto null = fs.open_to_append("/dev/null"), full = fs.open_to_append("/dev/full");
  ASSERT_TRUE(null && full);
  EXPECT_EQ((*full)->write("x").error(),
            (Error{Errc::NoSpace, "writing '/dev/full': No space left on device"}));
  EXPECT_EQ((*null)->sync().error().message, "syncing '/dev/null': Invalid argument");
  EXPECT_EQ((*null)->truncate(0).error().message, "truncating '/dev/null': Invalid argument");
  EXPECT_EQ(fs.open_to_read("/dev/null").error(),
            (Error{Errc::Io, "'/dev/null' is not a regular file"}));
}

TEST_F(Posix, CheckpointsAreCopiedFromAnotherFileSystem) {
  std::string pattern = "/dev/shm/storage-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) GTEST_SKIP() << "no /dev/shm";
  ASSERT_FALSE(write_small_file(fs, pattern + "/model.pt", std::string(3 << 20, 'm')).has_error());

  auto shard = write_shard(fs, in("checkpoints"), {Generation{1}, Attempt{0}, CheckpointSeq{1}},
                           Rank{0}, pattern);

  std::filesystem::remove_all(pattern);
  ASSERT_FALSE(shard.has_error()) << shard.error().describe();
  EXPECT_EQ(
      shard->files,
      (std::vector<CheckpointFile>{{"model.pt", 3 << 20, digest_of(std::string(3 << 20, 'm'))}}));
  EXPECT_EQ(fs.status(in("checkpoints/.tmp-1-0.1/.rank-0000/model.pt"))->bytes, 3U << 20);
}

/// The result of a checkpoint_loop that was killed while it worked.
struct Killed {
  std::uint64_t checkpoint = 0, record = 0;  // the last acknowledged
  std::string errors;
};

/// Kill the loop after it has acknowledged `words` (>= 2) things, and a `fraction` of the time that
/// one takes: disks differ by a factor of hundreds in that time.
Killed run_and_kill(const std::string& folder, std::ptrdiff_t words, double fraction) {
  using Clock = std::chrono::steady_clock;
  int out[2];
  EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
  const std::string program = std::string(TRAIN_BINARY_DIR) + "/tests/checkpoint_loop";
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::execl(program.c_str(), program.c_str(), folder.c_str(), nullptr);
    ::_exit(127);
  }
  ::close(out[1]);
  std::string text;
  char buffer[4096];
  std::optional<Clock::time_point> first_word, kill_at;
  for (bool killed = false;;) {
    if (kill_at && Clock::now() >= *kill_at && !killed) {
      ::kill(child, SIGKILL);
      killed = true;
    }
    pollfd waiting{out[0], POLLIN, 0};
    if (::poll(&waiting, 1, kill_at && !killed ? 0 : -1) == 0) continue;
    const ssize_t got = ::read(out[0], buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
    const auto now = Clock::now();
    if (!first_word) first_word = now;
    if (!kill_at && std::count(text.begin(), text.end(), '\n') >= words)
      kill_at = now + std::chrono::duration_cast<Clock::duration>((now - *first_word) * fraction /
                                                                  static_cast<double>(words - 1));
  }
  ::close(out[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  Killed result;
  if (!WIFSIGNALED(status)) result.errors = "it ended by itself, status " + std::to_string(status);
  std::istringstream lines(text);
  std::string what;
  for (std::uint64_t number = 0; lines >> what >> number;)
    (what == "checkpoint" ? result.checkpoint : result.record) = number;
  return result;
}

TEST_F(Posix, AWriterKilledAtRandomPointsLosesNothingItAcknowledged) {
  // On a disk that takes 0.1 s per sync, one kill takes seconds.
  constexpr int kKills = 50, kAtLeast = 5;
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  std::mt19937 random(4);
  const RunFolder run(in("run"));
  ASSERT_FALSE(fs.make_folder(run.path()).has_error());
  std::uint64_t newest = 0, last_record = 0;
  for (int kill = 0;
       kill < kAtLeast || (kill < kKills && std::chrono::steady_clock::now() < enough); ++kill) {
    const auto words = static_cast<std::ptrdiff_t>(2 + random() % 4);
    const Killed killed =
        run_and_kill(run.path(), words, std::uniform_real_distribution<>(0, 2)(random));
    ASSERT_EQ(killed.errors, "");
    newest = std::max(newest, killed.checkpoint);
    last_record = std::max(last_record, killed.record);

    const auto choice = CheckpointStore(fs, run.checkpoints()).open_for_restore();
    ASSERT_FALSE(choice.has_error()) << choice.error().describe();
    ASSERT_EQ(choice->warnings, std::vector<std::string>{});
    if (newest > 0) {
      ASSERT_TRUE(choice->checkpoint.has_value());
      ASSERT_GE(choice->checkpoint->number.value, newest);
      newest = choice->checkpoint->number.value;
    }
    const auto journal = read_journal(fs, run.journal());
    ASSERT_FALSE(journal.has_error()) << journal.error().describe();
    ASSERT_GE(journal->last_seq(), last_record);
    ASSERT_TRUE(!journal->damage || journal->damage->torn_tail);
    ASSERT_EQ(journal->generation(), Generation{static_cast<std::uint64_t>(kill + 1)});
  }
  EXPECT_GT(newest, 0U);
}

/// Commit a checkpoint of two ranks, with `bytes` random bytes in a few files.
Result<Manifest> commit_of_chance(PosixFileSystem& fs, CheckpointStore& store, std::uint64_t number,
                                  std::size_t bytes, std::mt19937& random,
                                  const std::string& staging) {
  const PendingCheckpoint pending{Generation{1}, Attempt{0}, CheckpointSeq{number}};
  std::vector<CheckpointShard> shards;
  for (const int rank : {0, 1}) {
    TRY_VOID(make_folders(fs, join_path(staging, "deep")));
    const std::string suffix = std::to_string(rank);
    for (const auto& [name, share] :
         std::map<std::string, std::size_t>{{"model-", 8}, {"deep/optimizer-", 4}, {"rng-", 1}}) {
      TRY(auto file, fs.create(join_path(staging, name + suffix)));
      std::string text(bytes * share / 13, '\0');
      for (char& c : text) c = static_cast<char>(random());
      TRY_VOID(file->write(text));
    }
    TRY(auto shard, write_shard(fs, store.folder(), pending, Rank{rank}, staging));
    shards.push_back(std::move(shard));
    TRY_VOID(remove_tree(fs, staging));
  }
  return store.commit({.pending = pending,
                       .number = CheckpointNumber{number},
                       .world_size = 2,
                       .shards = std::move(shards),
                       .created = "2026-11-22T00:00:00.000000Z"},
                      [] { return Unit{}; });
}

TEST_F(Posix, OneBitFlippedAnywhereIsFoundAndTheCheckpointBeforeIsUsed) {
  constexpr int kFlips = 1000;
  std::mt19937 random(18);
  CheckpointStore store(fs, in("run/checkpoints"));
  ASSERT_TRUE(store.open(Generation{1}));
  ASSERT_TRUE(commit_of_chance(fs, store, 1, 5000, random, in("staging")));
  const auto newest = commit_of_chance(fs, store, 2, 200000, random, in("staging"));
  ASSERT_TRUE(newest) << newest.error().describe();
  const std::string path = store.path_of(CheckpointNumber{2});
  std::map<std::string, std::uint64_t> files{
      {std::string(kManifestName), fs.status(join_path(path, kManifestName))->bytes}};
  for (const ManifestFile& file : newest->files) files[file.path] = file.bytes;
  std::uint64_t total = 0;
  for (const auto& [name, bytes] : files) total += bytes;

  for (int flip = 0; flip < kFlips; ++flip) {
    std::uint64_t at = std::uniform_int_distribution<std::uint64_t>(0, total - 1)(random);
    auto hit = files.begin();
    for (; at >= hit->second; ++hit) at -= hit->second;
    const int fd = ::open(join_path(path, hit->first).c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    const auto change = [&, bit = static_cast<char>(1 << random() % 8)] {
      char byte = 0;
      ASSERT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(at)), 1);
      byte = static_cast<char>(byte ^ bit);
      ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
    };
    change();
    const auto choice = store.open_for_restore();
    change();
    ::close(fd);

    ASSERT_TRUE(choice && choice->checkpoint) << hit->first << " at " << at;
    ASSERT_EQ(choice->checkpoint->number, CheckpointNumber{1}) << hit->first << " at " << at;
    ASSERT_EQ(choice->warnings.size(), 1u);
    ASSERT_NE(choice->warnings[0].find(hit->first), std::string::npos) << choice->warnings[0];
  }
  EXPECT_EQ(store.open_for_restore()->checkpoint->number, CheckpointNumber{2});
}

// In a folder that others may write to, what is in the way belongs to them.
TEST_F(Posix, APrivateFileFillsNoFileThatLiesInTheWay) {
  const std::string path = in("spec.yaml"), other = in("other");
  put("other", "mine");
  ASSERT_EQ(::symlink(other.c_str(), (path + ".tmp").c_str()), 0);
  ASSERT_TRUE(replace_private_file(path, "secret"));
  EXPECT_EQ(*read_small_file(fs, other, 10), "mine");
  put("spec.yaml.tmp", "open to all");
  ::chmod((path + ".tmp").c_str(), 0666);
  const int held = ::open((path + ".tmp").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_TRUE(replace_private_file(path, "secret 2"));
  struct stat mine {
  }, theirs{};
  ASSERT_EQ(::stat(path.c_str(), &mine), 0);
  ASSERT_EQ(::fstat(held, &theirs), 0);
  EXPECT_NE(mine.st_ino, theirs.st_ino);
  EXPECT_EQ(mine.st_mode & 07777, 0600u);
  ::close(held);
}

}  // namespace
}  // namespace train
