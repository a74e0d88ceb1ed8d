// Stacks come from the nodes into files of the run's folder.
#include "launcher/cluster/run/stack_collector.h"

#include <sys/stat.h>

#include <filesystem>

#include "lib/base/text_file.h"
#include "tests/unit/launcher_cluster/collector_fixture.h"

namespace train {
namespace {

constexpr NodeId kNode{0};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

class StackCollectorTest : public CollectorTest<StackCollector, TakeStacks, StacksTaken> {
 protected:
  StackCollectorTest() : CollectorTest("stacks") {
    node_.answers = {{.request = 0, .workers = {}, .last = true, .error = "it is busy"}};
  }

  Result<StacksCollected> collect() {
    Result<StacksCollected> found = Error{};
    const CollectStacks order{Attempt{0}, {kNode}, {}, "hung"};
    run([&]() -> asio::awaitable<void> {
      auto collecting = collector_.collect(order);
      found = co_await std::move(collecting);
    });
    return found;
  }
};

TEST_F(StackCollectorTest, WritesWhatComesAndWhyTheRestDoesNot) {
  const auto found = collect();
  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_EQ(found->error, "");
  EXPECT_EQ(found->why, "hung");
  EXPECT_EQ(first_line(found->path), "n0: it is busy");
  EXPECT_EQ(files("-hung.json"), 1u);
}

TEST_F(StackCollectorTest, SaysWhatTheFlightRecordsOfTheRanksSay) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(attempt_) / "flight_records";
  fs::create_directories(folder);
  node_.on_order = [&] {
    for (const char* name : {"rank-0", "rank-2"})
      fs::copy_file(fs::path(TRAIN_SOURCE_DIR "/tests/golden/flight") / name, folder / name);
    std::ofstream(folder / "rank-1") << "}cos\nsystem\n.";
    std::ofstream(folder / "rank-9.tmp") << "draft";
  };

  const auto found = collect();

  ASSERT_TRUE(found) << found.error().describe();
  const std::string said =
      "rank 2 has not made collective call 3 (all_reduce of Float [4, 2]) of default_pg (0), which "
      "rank 0 has made\n"
      "the flight record of rank 1 cannot be read: byte 2 of a pickle: instruction 0x63 is not one "
      "of plain data\n";
  EXPECT_EQ(found->flight_records, said);
  EXPECT_EQ(read_text(found->path).substr(0, 15 + said.size()), "n0: it is busy\n" + said);
}

// They would say that a rank lacks calls that it has made since.
TEST_F(StackCollectorTest, FlightRecordsOfAnEarlierTimeDoNotCount) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(attempt_) / "flight_records",
                 golden = fs::path(TRAIN_SOURCE_DIR "/tests/golden/flight");
  fs::create_directories(folder);
  fs::copy_file(golden / "rank-2", folder / "rank-2");
  node_.on_order = [&] { fs::copy_file(golden / "rank-0", folder / "rank-0"); };

  const auto found = collect();

  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_EQ(found->flight_records, "");
  EXPECT_FALSE(fs::exists(folder / "rank-2"));
}

// A worker may have put anything there.
TEST_F(StackCollectorTest, FlightRecordsAreNeitherReadNorRemovedThroughALink) {
  namespace fs = std::filesystem;
  const fs::path elsewhere = folder_ / "elsewhere";
  fs::create_directories(elsewhere);
  std::ofstream(elsewhere / "rank-0") << "of somebody";
  fs::create_directories(attempt_);
  fs::create_directory_symlink(elsewhere, fs::path(attempt_) / "flight_records");

  const auto found = collect();

  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_EQ(found->flight_records, "");
  EXPECT_TRUE(fs::exists(elsewhere / "rank-0"));
}

TEST_F(StackCollectorTest, OnlyPlainFilesAreFlightRecords) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(attempt_) / "flight_records";
  fs::create_directories(folder);
  std::ofstream(folder_ / "secret") << "of somebody";
  node_.on_order = [&] {
    fs::create_symlink(folder_ / "secret", folder / "rank-0");
    EXPECT_EQ(::mkfifo((folder / "rank-1").c_str(), 0600), 0);
    std::ofstream(folder / "rank-2") << ".";
    fs::resize_file(folder / "rank-2", 1u << 30);
  };

  const auto found = collect();

  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_TRUE(found->flight_records.starts_with("the flight record of rank 0 cannot be read: "))
      << found->flight_records;
}

TEST_F(StackCollectorTest, WaitsForNobodyOnceTheAttemptHasEnded) {
  node_.answers.clear();
  Result<StacksCollected> found = Error{};
  run([&]() -> asio::awaitable<void> {
    Scope scope(executor());
    const auto end_it = [](StackCollector& collector,
                           const std::vector<TakeStacks>& orders) -> asio::awaitable<void> {
      while (orders.empty()) (void)co_await pause_for(1ms);
      collector.attempt_ended(Attempt{7});
      collector.attempt_ended(Attempt{0});
    };
    scope.spawn("end", end_it(collector_, node_.orders));
    auto collecting = collector_.collect({Attempt{0}, {kNode}, {}, "hung"});
    found = co_await std::move(collecting);
    co_await scope.join();
  });
  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_EQ(first_line(found->path), "n0: attempt 0 ended before it had answered");
}

TEST_F(StackCollectorTest, AnswersToAnEarlierLauncherCountForNothing) {
  collector_.received({Attempt{0}, kNode}, {.request = 1, .last = true, .error = "old"});
  const auto found = collect();
  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_GT(node_.orders.at(0).request, std::uint64_t{1} << 32);  // counted from the time
}

// Others may keep files there, too.
TEST_F(StackCollectorTest, RemovesTheOldestOfItsOwnFilesAndNoOthers) {
  make_old_results("hung", {".txt", ".json"});
  ASSERT_TRUE(collect());
  expect_newest("hung", {".txt", ".json"});
}

}  // namespace
}  // namespace train
