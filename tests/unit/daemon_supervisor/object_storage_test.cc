// Tests checkpoints of a run in an object store, from the node's side.
#include "daemon/supervisor/checkpoints/object_storage.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>
#include <thread>

#include "lib/storage/checkpoint_export.h"
#include "lib/storage/object_checkpoint_store.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/storage_module.h"

namespace train {
namespace {

namespace fs = std::filesystem;

class ObjectStorageTest : public testing::Test {
 protected:
  ObjectStorageTest() {
    char name[] = "/tmp/objects-XXXXXX";
    dir_ = ::mkdtemp(name);
    prepare_.run_dir = url_;
    prepare_.generation = 4;
    prepare_.storage_marker = "vit 1";
  }
  ~ObjectStorageTest() override { fs::remove_all(dir_); }

  ObjectStorage& storage() {
    if (!storage_)
      storage_.emplace(prepare_, Attempt{3}, dir_ + "/checkpoints", [](const std::string&) {});
    return *storage_;
  }
  template <class T>
  static asio::awaitable<void> keep(asio::awaitable<T> task, std::optional<T>& into) {
    into.emplace(co_await std::move(task));
  }
  template <class T>
  void begin(asio::awaitable<T> task, std::optional<T>& into) {
    asio::co_spawn(context_, keep(std::move(task), into), [](const std::exception_ptr&) {});
  }
  template <class T>
  T result_of(asio::awaitable<T> task) {
    std::optional<T> result;
    begin(std::move(task), result);
    context_.restart();
    context_.run();
    return std::move(result).value();
  }
  CheckpointStaged staged(std::uint64_t index) {
    CheckpointStaged message;
    message.checkpoint_seq = index;
    message.report_seq = 9;
    message.dir = storage().staging_folder() + "/rank-0002/ckpt-" + std::to_string(index);
    fs::create_directories(message.dir + "/sub");
    std::ofstream(message.dir + "/state") << "hello";
    std::ofstream(message.dir + "/sub/rng") << "1";
    return message;
  }
  ShardWritten stored(const CheckpointStaged& message) {
    return result_of(storage().store(Rank{2}, message));
  }

  /// Commit a checkpoint of this number, and return its URL.
  std::string committed(std::uint64_t number) {
    const ShardWritten shard = result_of(storage().store(Rank{0}, staged(number)));
    ObjectFiles files(std::make_shared<fakes::MemoryObjectStore>(objects_), url_);
    ObjectCheckpointStore store(files, url_);
    const CommitRequest request{.pending = {Generation{4}, Attempt{3}, CheckpointSeq{number}},
                                .number = CheckpointNumber{number},
                                .shards = {shard},
                                .created = "2026-11-21T09:38:00.123456Z"};
    const auto committed = store.commit(request, [] { return Unit{}; });
    EXPECT_TRUE(committed) << committed.error().describe();
    return store.path_of(CheckpointNumber{number});
  }

  const std::string url_ =
      std::string("s3://bucket/") + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::shared_ptr<fakes::MemoryObjects> objects_ = fakes::objects_at(url_);
  std::string dir_;
  PrepareAttempt prepare_;
  asio::io_context context_;
  std::optional<ObjectStorage> storage_;
};

TEST_F(ObjectStorageTest, IsUsedWhereTheLaunchersMarkIsAndLeavesNothing) {
  objects_->put("probe-4", "vit 1");
  EXPECT_TRUE(result_of(storage().probe()));
  EXPECT_EQ(objects_->keys(), std::vector<std::string>{"probe-4"});
}

TEST_F(ObjectStorageTest, AnotherStoreIsRefused) {
  const auto nothing = result_of(storage().probe());
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, Errc::NotFound);
  EXPECT_TRUE(nothing.error().message.starts_with("the run's storage cannot be used: "))
      << nothing.error().message;

  objects_->put("probe-4", "resnet 7");
  const auto other = result_of(storage().probe());
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::InvalidArgument);
  EXPECT_EQ(other.error().message,
            "the run's storage cannot be used: '" + url_ +
                "' is not the launcher's storage: it has another launcher's marker");
  EXPECT_EQ(objects_->keys(), std::vector<std::string>{"probe-4"});
}

TEST_F(ObjectStorageTest, AShardIsUploadedAndWhatWasStagedGoes) {
  const CheckpointStaged message = staged(1);

  const ShardWritten shard = stored(message);

  EXPECT_EQ(shard.error, "");
  EXPECT_EQ(shard.rank, Rank{2});
  EXPECT_EQ(shard.checkpoint_seq, 1u);
  EXPECT_EQ(shard.report_seq, 9u);
  EXPECT_FALSE(shard.on_node);
  ASSERT_EQ(shard.files.size(), 2u);
  EXPECT_EQ(shard.files[0].path, "state");
  EXPECT_EQ(shard.files[0].bytes, 5u);
  EXPECT_EQ(shard.files[1].path, "sub/rng");
  std::vector<std::string> texts;
  for (const auto& [key, text] : objects_->all()) texts.push_back(text);
  EXPECT_EQ(texts, (std::vector<std::string>{"hello", "1"}));
  EXPECT_FALSE(fs::exists(message.dir));
}

TEST_F(ObjectStorageTest, OfAShardThatCannotBeUploadedTheLauncherHearsWhy) {
  CheckpointStaged failed = staged(1);
  failed.error = "the disk is full";
  EXPECT_EQ(stored(failed).error, "the disk is full");
  EXPECT_TRUE(objects_->keys().empty());

  CheckpointStaged gone = staged(2);
  fs::remove_all(gone.dir);
  const ShardWritten shard = stored(gone);
  EXPECT_TRUE(shard.error.starts_with("uploading the shard of rank 2: ")) << shard.error;
}

TEST_F(ObjectStorageTest, AnUploadEndsAtItsLimit) {
  prepare_.upload_timeout_ms = 0;
  const CheckpointStaged message = staged(1);

  const ShardWritten shard = stored(message);

  EXPECT_FALSE(shard.no_space);
  EXPECT_TRUE(shard.error.starts_with("uploading the shard of rank 2: not uploaded within 0 ms"))
      << shard.error;
  EXPECT_FALSE(fs::exists(message.dir));
}

TEST_F(ObjectStorageTest, AShardWhoseTurnComesTooLateIsNotUploaded) {
  prepare_.upload_timeout_ms = 1;
  std::promise<void> let_go;
  std::atomic<int> uploads = 0;
  objects_->before_each(
      [&uploads, held = let_go.get_future().share()](const std::string& operation) {
        if (operation.starts_with("create ")) ++uploads;
        held.wait();
      });
  std::array<std::optional<ShardWritten>, 3> shards;  // more than are uploaded at a time
  for (std::uint64_t index = 0; index < 3; ++index)
    begin(storage().store(Rank{2}, staged(index)), shards.at(index));
  context_.poll();
  const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  ASSERT_TRUE(fakes::eventually([&] { return std::chrono::steady_clock::now() > late; }));

  let_go.set_value();
  context_.restart();
  context_.run();

  ASSERT_TRUE(shards[2]);
  EXPECT_TRUE(
      shards[2]->error.starts_with("uploading the shard of rank 2: not uploaded within 1 ms"))
      << shards[2]->error;
  EXPECT_LE(uploads, 2);
}

TEST_F(ObjectStorageTest, ACommittedCheckpointIsBroughtHere) {
  const std::string from = committed(7);

  const auto folder = result_of(storage().fetch(from));

  ASSERT_TRUE(folder) << folder.error().describe();
  EXPECT_EQ(*folder, dir_ + "/checkpoints/restored/checkpoint_000007");
  PosixFileSystem local;
  EXPECT_TRUE(verify_checkpoint(local, *folder));
  EXPECT_TRUE(fs::exists(*folder + "/sub/rng"));

  storage().clean_up();
  EXPECT_FALSE(fs::exists(dir_ + "/checkpoints"));
}

TEST_F(ObjectStorageTest, OfThoseThatAreValidatedOnlyTheNewestStaysBesideTheRestoredOne) {
  const std::string restored = *result_of(storage().fetch(committed(7)));
  const std::string first = *result_of(storage().fetch_to_validate(committed(8)));
  EXPECT_TRUE(fs::exists(first));

  const std::string second = *result_of(storage().fetch_to_validate(committed(9)));

  EXPECT_FALSE(fs::exists(first));
  PosixFileSystem local;
  EXPECT_TRUE(verify_checkpoint(local, second));
  EXPECT_TRUE(verify_checkpoint(local, restored));
}

TEST_F(ObjectStorageTest, TheRestoredOneIsValidatedWhereItIs) {
  const std::string from = committed(7);
  const std::string restored = *result_of(storage().fetch(from));

  EXPECT_EQ(*result_of(storage().fetch_to_validate(from)), restored);
  EXPECT_TRUE(result_of(storage().fetch_to_validate(committed(8))));
  EXPECT_TRUE(fs::exists(restored));
}

TEST_F(ObjectStorageTest, ALocationThatLeadsOutOfItsFolderIsRefused) {
  const std::string restored = *result_of(storage().fetch(committed(7)));
  for (const char* name : {"/..", "/.", "/"}) {
    EXPECT_EQ(result_of(storage().fetch(url_ + name)).error().code, Errc::InvalidArgument);
    EXPECT_EQ(result_of(storage().fetch_to_validate(url_ + name)).error().code,
              Errc::InvalidArgument);
  }
  EXPECT_TRUE(result_of(storage().fetch_to_validate(committed(8))));
  EXPECT_TRUE(fs::exists(restored));
}

TEST_F(ObjectStorageTest, OneThatIsNotThereIsNamed) {
  const std::string from = url_ + "/checkpoints/checkpoint_000007";
  const auto folder = result_of(storage().fetch(from));
  ASSERT_FALSE(folder);
  EXPECT_TRUE(folder.error().message.starts_with("fetching " + from + ": "))
      << folder.error().message;
}

TEST_F(ObjectStorageTest, AFolderOfThisMachineIsTakenAsItIs) {
  EXPECT_EQ(*result_of(storage().fetch("/runs/vit/checkpoints/checkpoint_000007")),
            "/runs/vit/checkpoints/checkpoint_000007");
}

}  // namespace
}  // namespace train
