// Stacks come from the nodes into files of the run's folder.
#include "launcher/cluster/run/stack_collector.h"

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
