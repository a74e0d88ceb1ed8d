// Stacks come from the nodes into files of the run's folder.
#include "launcher/cluster/run/stack_collector.h"

#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <fstream>

#include "lib/storage/posix_file_system.h"
#include "lib/wire/codec.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

namespace fs = std::filesystem;
constexpr NodeId kNode{0};

/// A node that answers each order with an error, or with what `answer` holds.
class AnsweringNode final : public NodeLinks {
 public:
  void send(NodeId node, const Frame& frame) override {
    const auto order = decode<TakeStacks>(frame);
    ASSERT_TRUE(order);
    answer.request = order->request;
    collector->received({frame.attempt, node}, answer);
  }
  std::string name(NodeId) const override { return "n0"; }
  std::optional<NodeId> find(const std::string&) const override { return kNode; }
  std::vector<NodeId> up() const override { return {kNode}; }

  StackCollector* collector = nullptr;
  StacksTaken answer{.request = 0, .workers = {}, .last = true, .error = "it is busy"};
};

class StackCollectorTest : public NetTest {
 protected:
  StackCollectorTest() { node_.collector = &collector_; }

  Result<StacksCollected> collect() {
    Result<StacksCollected> found = Error{};
    const CollectStacks order{Attempt{0}, {kNode}, {}, "hung"};
    run([&]() -> asio::awaitable<void> {
      auto collecting = collector_.collect(order);
      found = co_await std::move(collecting);
    });
    return found;
  }
  std::size_t files(const std::string& ending) const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(stacks_))
      if (entry.path().string().ends_with(ending)) ++count;
    return count;
  }

  SystemClock clock_;
  PosixFileSystem files_;
  AnsweringNode node_;
  asio::thread_pool disk_{1};
  const std::string stacks_ = (folder_ / "attempts/000/stacks").string();
  StackCollector collector_{executor(), clock_, node_, disk_, files_, RunFolder(folder_.string())};
};

TEST_F(StackCollectorTest, WritesWhatComesAndWhyTheRestDoesNot) {
  const auto found = collect();
  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_EQ(found->error, "");
  EXPECT_EQ(found->why, "hung");
  std::ifstream file(found->path);
  std::string line;
  EXPECT_TRUE(std::getline(file, line));
  EXPECT_EQ(line, "n0: it is busy");
  EXPECT_EQ(files("-hung.json"), 1u);
}

// Others may keep files there, too.
TEST_F(StackCollectorTest, RemovesTheOldestOfItsOwnFilesAndNoOthers) {
  fs::create_directories(stacks_);
  for (int i = 0; i < 200; ++i) {
    std::ofstream(fmt::format("{}/20200101-000000.{:03}-hung.txt", stacks_, i)) << "old";
    std::ofstream(fmt::format("{}/{:03}-notes.txt", stacks_, i)) << "mine";
  }
  std::ofstream(stacks_ + "/20200101-000000.000-hung.core") << "mine";
  ASSERT_TRUE(collect());
  EXPECT_EQ(files("-notes.txt"), 200u);
  EXPECT_EQ(files(".core"), 1u);
  EXPECT_EQ(files("-hung.txt"), 64u);
  EXPECT_FALSE(fs::exists(stacks_ + "/20200101-000000.136-hung.txt"));
  EXPECT_TRUE(fs::exists(stacks_ + "/20200101-000000.137-hung.txt"));
}

}  // namespace
}  // namespace train
