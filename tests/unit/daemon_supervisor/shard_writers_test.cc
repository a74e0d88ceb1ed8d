// Storage whose syncs hang until the test releases them.
#include "daemon/supervisor/checkpoints/shard_writers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>

#include "lib/storage/posix_file_system.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

namespace fs = std::filesystem;

class Gate {
 public:
  void close() { set(true); }
  void open() { set(false); }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.wait(lock, [this] { return !closed_; });
    --waiting_;
  }
  int waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  void set(bool closed) {
    const std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int waiting_ = 0;
};

class HangingFiles final : public FileSystem {
 public:
  explicit HangingFiles(Gate& gate) : gate_(gate) {}
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    return real_.create(path);
  }
  Result<std::unique_ptr<WritableFile>> open_to_append(const std::string& path) override {
    return real_.open_to_append(path);
  }
  Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& path) override {
    return real_.open_to_read(path);
  }
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    return real_.lock(path);
  }
  Result<Unit> rename(const std::string& from, const std::string& to) override {
    return real_.rename(from, to);
  }
  Result<Unit> rename_new(const std::string& from, const std::string& to) override {
    return real_.rename_new(from, to);
  }
  Result<Unit> make_folder(const std::string& path) override { return real_.make_folder(path); }
  Result<Unit> remove_file(const std::string& path) override { return real_.remove_file(path); }
  Result<Unit> remove_folder(const std::string& path) override { return real_.remove_folder(path); }
  Result<Unit> sync_folder(const std::string& path) override {
    gate_.pass();
    return real_.sync_folder(path);
  }
  Result<FileStatus> status(const std::string& path) override { return real_.status(path); }
  Result<std::vector<FolderEntry>> list(const std::string& path) override {
    return real_.list(path);
  }
  Result<std::uint64_t> free_bytes(const std::string& path) override {
    return real_.free_bytes(path);
  }
  Result<bool> same_file_system(const std::string& a, const std::string& b) override {
    return real_.same_file_system(a, b);
  }

 private:
  Gate& gate_;
  PosixFileSystem real_;
};

class ShardWritersTest : public ::testing::Test {
 protected:
  using Answer = std::optional<Result<CheckpointShard>>;

  ShardWritersTest() {
    char folder[] = "/tmp/shard-writers-XXXXXX";
    dir_ = ::mkdtemp(folder);
    fs::create_directories(dir_ + "/checkpoints");
  }
  ~ShardWritersTest() override {
    gate_.open();
    run_until([this] {
      return std::all_of(writers_.begin(), writers_.end(),
                         [](const ShardWriters& one) { return one.hanging() == 0; });
    });
    // Threads that nobody joins still remove what was staged.
    const std::string all_staged = dir_ + "/checkpoints/.staging-0";
    EXPECT_TRUE(
        fakes::eventually([&] { return !fs::exists(all_staged) || fs::is_empty(all_staged); }));
    fs::remove_all(dir_);
  }
  ShardWriters& writers(Duration limit) {
    return writers_.emplace_back(context_.get_executor(), clock_,
                                 std::make_shared<HangingFiles>(gate_), limit);
  }
  ShardOrder order(std::uint64_t index) {
    fs::create_directories(staged(index));
    std::ofstream(staged(index) + "/state") << "state";
    return {dir_ + "/checkpoints",
            {Generation{1}, Attempt{0}, CheckpointSeq{index}},
            Rank{0},
            staged(index)};
  }
  std::string staged(std::uint64_t index) const {
    return fmt::format("{}/checkpoints/.staging-0/{}", dir_, index);
  }
  std::string pending(std::uint64_t index) const {
    return fmt::format("{}/checkpoints/.tmp-1-0.{}", dir_, index);
  }
  void begin(ShardWriters& writers, std::uint64_t index) {
    asio::co_spawn(context_, keep(writers, order(index), answers_[index]),
                   [](std::exception_ptr) {});
  }
  /// Expect a timeout, as every shard has one while the gate is closed.
  void expect_given_up(std::uint64_t index) {
    run_until([&] { return answers_[index].has_value(); });
    ASSERT_TRUE(answers_[index]->has_error());
    EXPECT_EQ(answers_[index]->error().code, Errc::Timeout);
  }
  void run_until(const std::function<bool()>& reached) {
    context_.restart();
    while (!reached() && context_.run_one() > 0) {
    }
  }
  static asio::awaitable<void> keep(ShardWriters& writers, ShardOrder order, Answer& answer) {
    auto writing = writers.write(std::move(order));
    auto written = co_await std::move(writing);
    answer.emplace(std::move(written));
  }

  std::string dir_;
  Gate gate_;
  SystemClock clock_;
  asio::io_context context_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  std::list<ShardWriters> writers_;
  std::map<std::uint64_t, Answer> answers_;
};

TEST_F(ShardWritersTest, StoreAShardAndTakeWhatWasStaged) {
  begin(writers(seconds(600)), 1);
  run_until([&] { return answers_[1].has_value(); });

  ASSERT_TRUE(answers_[1]->has_value()) << answers_[1]->error().describe();
  EXPECT_EQ((*answers_[1])->dir, ".rank-0000");
  EXPECT_TRUE(fs::exists(pending(1) + "/.rank-0000/state"));
  EXPECT_FALSE(fs::exists(staged(1)));
}

TEST_F(ShardWritersTest, TakeAlsoWhatWasStagedForAShardThatCannotBeStored) {
  fs::create_directories(staged(1));
  fs::create_symlink("state", staged(1) + "/link");

  begin(writers(seconds(600)), 1);
  run_until([&] { return answers_[1].has_value(); });

  EXPECT_TRUE(answers_[1]->has_error());
  EXPECT_FALSE(fs::exists(staged(1)));
}

TEST_F(ShardWritersTest, GiveUpWhatHangsAndStillTryTheNextOnes) {
  gate_.close();
  ShardWriters& all = writers(milliseconds(20));
  for (std::uint64_t index = 1; index <= 3; ++index) begin(all, index);
  run_until([&] { return answers_[1] && answers_[2] && answers_[3]; });

  for (std::uint64_t index = 1; index <= 3; ++index) {
    ASSERT_TRUE(answers_[index]->has_error());
    EXPECT_EQ(answers_[index]->error().code, Errc::Timeout);
  }
  const std::string& why = answers_[1]->error().message;
  EXPECT_TRUE(why.starts_with(fmt::format("not stored within 20 ms in '{}/checkpoints'", dir_)))
      << why;

  EXPECT_GE(all.hanging(), 2);

  gate_.open();
  run_until([&] { return all.hanging() == 0; });
  EXPECT_FALSE(fs::exists(pending(1)));  // what was stored too late is gone
  EXPECT_FALSE(fs::exists(pending(2)));
  for (std::uint64_t index = 1; index <= 3; ++index)
    EXPECT_TRUE(fakes::eventually([&] { return !fs::exists(staged(index)); })) << index;
  begin(writers(seconds(600)), 4);
  run_until([&] { return answers_[4].has_value(); });
  EXPECT_TRUE(answers_[4]->has_value());
}

// A writer that does not reach the gate in time leaves no thread behind, so it may take more than
// eight writers to get eight threads.
TEST_F(ShardWritersTest, LeaveEightThreadsBehindAndStartNoMore) {
  gate_.close();
  ShardWriters& all = writers(milliseconds(20));
  std::uint64_t index = 0;
  while (gate_.waiting() < kHangingWritersMax && index < 100) {
    begin(all, ++index);
    expect_given_up(index);
  }
  for (const std::uint64_t eight = index; index < eight + 4;) {
    begin(all, ++index);
    expect_given_up(index);
  }

  EXPECT_EQ(all.hanging(), 8);
  EXPECT_EQ(gate_.waiting(), 8);
}

// One writer hangs before the pairs begin, so only one of the last pair can start.
TEST_F(ShardWritersTest, LeaveNoMoreBehindWhereTwoWriteAtATime) {
  gate_.close();
  ShardWriters& all = writers(milliseconds(20));
  begin(all, 1);
  expect_given_up(1);
  std::uint64_t index = 1;
  const auto begin_two = [&] {
    begin(all, index + 1);
    begin(all, index + 2);
    for (const std::uint64_t last = index + 2; index < last;) expect_given_up(++index);
  };
  while (gate_.waiting() < kHangingWritersMax && index < 100) begin_two();
  for (int more = 0; more < 4; ++more) begin_two();

  EXPECT_EQ(all.hanging(), 8);
  EXPECT_EQ(gate_.waiting(), 8);
}

TEST_F(ShardWritersTest, GiveUpEverythingOnceNobodyWaitsForIt) {
  gate_.close();
  ShardWriters& all = writers(seconds(600));
  for (std::uint64_t index = 1; index <= 3; ++index) begin(all, index);
  context_.poll();  // two have a thread now, the third one waits

  all.give_up();
  begin(all, 4);
  run_until([&] { return answers_[1] && answers_[2] && answers_[3] && answers_[4]; });

  for (std::uint64_t index = 1; index <= 4; ++index) {
    ASSERT_TRUE(answers_[index]->has_error());
    EXPECT_EQ(answers_[index]->error().code, Errc::Cancelled);
  }
  EXPECT_EQ(all.hanging(), 2);
  for (const std::uint64_t index : {3, 4})  // the two that were never begun
    EXPECT_TRUE(fakes::eventually([&] { return !fs::exists(staged(index)); })) << index;
}

}  // namespace
}  // namespace train
