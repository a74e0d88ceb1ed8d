// Reads of objects: the fetcher's bounds, what is read ahead, and errors.
#include "lib/data/read/object_reads.h"

#include <arrow/buffer.h>
#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "lib/data/arrow_error.h"
#include "lib/data/read/object_place.h"
#include "lib/data/read/stop_reading.h"
#include "tests/fakes/object_store.h"

namespace train::data {
namespace {

using testing::ElementsAre;

constexpr std::int64_t kMiB = 1 << 20;

/// Counts the reads that are in progress, and may hold them.
class CountingStore final : public fakes::MemoryObjectStore {
 public:
  using MemoryObjectStore::MemoryObjectStore;

  Result<Unit> read_range(const RangeRead& range) override {
    std::unique_lock lock(mutex_);
    now_ += 1;
    most_ = std::max(most_, now_);
    largest_ = std::max(largest_, range.bytes);
    changed_.notify_all();
    while (held_) {
      if (range.cancelled()) {
        ++given_up_;
        --now_;
        changed_.notify_all();
        return Error{Errc::Cancelled, "given up"};
      }
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    lock.unlock();
    auto read = MemoryObjectStore::read_range(range);
    lock.lock();
    now_ -= 1;
    return read;
  }
  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  /// Wait until so many reads are in progress, or have been given up.
  void wait_for(int now, int given_up) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return now_ == now && given_up_ == given_up; });
  }
  int most() {
    const std::lock_guard lock(mutex_);
    return most_;
  }
  std::size_t largest() {
    const std::lock_guard lock(mutex_);
    return largest_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  int now_ = 0, most_ = 0, given_up_ = 0;
  std::size_t largest_ = 0;
};

class ObjectReads : public testing::Test {
 protected:
  DataFile put(const std::string& key, std::int64_t bytes) {
    std::string text(static_cast<std::size_t>(bytes), '\0');
    std::minstd_rand chance{7};
    for (char& c : text) c = static_cast<char>(chance());
    objects_->put(key, text);
    const ObjectStatus status = **store_->status(key);
    return {
        .path = place_->url_of(key), .place = place_, .bytes = bytes, .version = status.version};
  }
  std::vector<std::string> reads() const {
    std::vector<std::string> reads;
    for (const std::string& operation : store_->trace())
      if (operation.starts_with("read ")) reads.push_back(operation.substr(5));
    return reads;
  }
  std::string bytes(const DataFile& file, std::int64_t offset, std::int64_t count) const {
    return objects_->get(place_->key_of(file.path))
        .substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
  }

  std::shared_ptr<fakes::MemoryObjects> objects_ = std::make_shared<fakes::MemoryObjects>();
  std::shared_ptr<CountingStore> store_ = std::make_shared<CountingStore>(objects_);
  std::shared_ptr<const ObjectPlace> place_ =
      std::make_shared<const ObjectPlace>("s3://b/", store_);
};

TEST_F(ObjectReads, AskForABoundedNumberOfBytesAtATime) {
  std::vector<DataFile> files;
  std::vector<WantedRange> ranges;
  for (int i = 0; i < 40; ++i) files.push_back(put("f" + std::to_string(i), 100));
  files.push_back(put("large", 30 * kMiB));
  for (const DataFile& file : files) ranges.push_back({&file, 0, file.bytes});
  store_->hold(true);
  std::thread reader([&] {
    const auto all = read_all_ranges(ranges);
    ASSERT_TRUE(all.ok()) << all.status().ToString();
    for (std::size_t i = 0; i < files.size(); ++i)
      EXPECT_EQ((*all)[i]->ToString(), bytes(files[i], 0, files[i].bytes)) << i;
  });
  store_->wait_for(kFetchesMax, 0);
  store_->hold(false);
  reader.join();

  EXPECT_EQ(store_->most(), kFetchesMax);
  EXPECT_EQ(store_->largest(), static_cast<std::size_t>(kFetchBytesMax));
}

TEST_F(ObjectReads, EndWhenNobodyWaitsForThem) {
  const DataFile file = put("a", 100);
  store_->hold(true);
  std::atomic<bool> stopped = false;
  std::thread reader([&] {
    const StopReading stop(stopped);
    const auto bytes = read_at(file, 0, 100);
    EXPECT_TRUE(bytes.status().IsCancelled()) << bytes.status().ToString();
  });
  store_->wait_for(1, 0);
  stopped = true;
  reader.join();
  store_->wait_for(0, 1);

  { const FetchPtr given_up = start_fetch(file, 0, 100); }
  store_->hold(false);
  EXPECT_TRUE(read_at(file, 0, 100).ok());
}

TEST_F(ObjectReads, AFileHasItsBytesAtAnyPlaceWhateverWasPlanned) {
  const DataFile file = put("a", 5 * kMiB);
  std::minstd_rand chance{3};
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(chance()) % limit;
  };
  for (int round = 0; round < 30; ++round) {
    std::vector<PlannedRange> plan;
    for (std::int64_t at = below(kMiB); at < file.bytes; at += below(kMiB)) {
      const std::int64_t size = std::min(file.bytes - at, 1 + below(kMiB));
      plan.push_back({at, size, round % 3 == 0 ? 0 : 1 + below(300'000)});
      at += size;
    }
    const auto opened = open_file(file, plan).ValueOrDie();
    for (int read = 0; read < 20; ++read) {
      const std::int64_t at = below(file.bytes + 10), size = below(read % 2 ? 2 * kMiB : 1000);
      const auto got = opened->ReadAt(at, size);
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      const std::int64_t there = std::clamp<std::int64_t>(file.bytes - at, 0, size);
      ASSERT_EQ((*got)->ToString(), there == 0 ? "" : bytes(file, at, there)) << at << "+" << size;
    }
  }
}

TEST_F(ObjectReads, AStreamIsReadOnceAndAhead) {
  const DataFile file = put("a", 20 * kMiB);
  const auto stream = open_stream(file).ValueOrDie();
  std::string all;
  while (true) {
    const auto piece = stream->Read(300'000).ValueOrDie();
    if (piece->size() == 0) break;
    all += piece->ToString();
  }

  EXPECT_EQ(all, bytes(file, 0, file.bytes));
  // It may be left early, so the first pieces are small.
  EXPECT_THAT(reads(),
              testing::UnorderedElementsAre("a 0+262144", "a 262144+1048576", "a 1310720+4194304",
                                            "a 5505024+4194304", "a 9699328+4194304",
                                            "a 13893632+4194304", "a 18087936+2883584"));
}

TEST_F(ObjectReads, TheNextWindowIsFetchedWhileOneIsUsed) {
  const DataFile file = put("a", 10'000);
  const auto opened = open_file(file, {{.offset = 1000, .bytes = 5000, .window = 1000}});
  ASSERT_TRUE((*opened)->ReadAt(1000, 10).ok());
  // To wait for the window ahead, read it: it was asked for before.
  ASSERT_TRUE((*opened)->ReadAt(2000, 1).ok());
  EXPECT_THAT(reads(), testing::IsSupersetOf({"a 1000+1000", "a 2000+1000"}));
  ASSERT_TRUE((*opened)->ReadAt(5500, 400).ok());
  EXPECT_THAT(reads(), testing::Not(testing::Contains("a 4000+1000")));  // passed over
}

TEST_F(ObjectReads, FootersAreOneReadAndItsNeighbours) {
  const DataFile file = put("a", 3 * kMiB);
  const auto opened = open_file(file).ValueOrDie();
  for (const std::int64_t size : {8, 5000, 60'000})
    ASSERT_TRUE(opened->ReadAt(file.bytes - size, size).ok());
  EXPECT_THAT(reads(), ElementsAre("a 3080192+65536"));
}

TEST_F(ObjectReads, AnErrorKeepsItsKindAndWhatToDo) {
  const DataFile file = put("a", 100);
  objects_->put("a", std::string(100, 'n'));

  const Error error = error_from(read_at(file, 0, 100).status(), "cannot read it");

  EXPECT_EQ(error.code, Errc::Corrupt);
  EXPECT_EQ(error.message, "'a' is not what it was when it was listed");
  EXPECT_EQ(error_from(status_from({Errc::Permission, "no", "log in"}), "x").hint, "log in");
}

}  // namespace
}  // namespace train::data
