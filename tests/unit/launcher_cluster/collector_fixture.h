// What the tests of StackCollector and ProfileCollector share: a node that answers, and the folder
// with what was collected.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "launcher/cluster/links/node_links.h"
#include "lib/storage/posix_file_system.h"
#include "lib/wire/codec.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {

/// A node that answers each order with these messages.
template <class Collector, class Order, class Answer>
class AnsweringNode final : public NodeLinks {
 public:
  void send(NodeId node, const Frame& frame) override {
    const auto order = decode<Order>(frame);
    ASSERT_TRUE(order);
    orders.push_back(*order);
    if (on_order) on_order();
    for (Answer answer : answers) {
      answer.request = order->request;
      collector->received({frame.attempt, node}, answer);
    }
  }
  std::string name(NodeId) const override { return "n0"; }
  std::optional<NodeId> find(const std::string&) const override { return NodeId{0}; }
  std::vector<NodeId> up() const override { return {NodeId{0}}; }

  Collector* collector = nullptr;
  std::vector<Answer> answers;
  std::vector<Order> orders;
  std::function<void()> on_order = {};  // what the node does before it answers
};

template <class Collector, class Order, class Answer>
class CollectorTest : public NetTest {
 protected:
  explicit CollectorTest(const std::string& kind) : results_(attempt_ + "/" + kind) {
    node_.collector = &collector_;
  }
  std::size_t files(const std::string& ending) const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(results_))
      if (entry.path().string().ends_with(ending)) ++count;
    return count;
  }
  void write(const std::string& name) const { std::ofstream(results_ + "/" + name) << "text"; }
  /// Make as many old results as would be kept, and half as many again, and as many files of
  /// others.
  void make_old_results(const std::string& what, const std::vector<std::string>& endings) const {
    std::filesystem::create_directories(results_);
    for (int i = 0; i < 96; ++i) {
      for (const std::string& ending : endings)
        write(fmt::format("20200101-000000.{:03}-{}{}", i, what, ending));
      write(fmt::format("{:03}-notes{}", i, endings.front()));
    }
    write(fmt::format("20200101-000000.000-{}.core", what));
  }
  /// Expect that the newest old results are there beside a new one, and all files of others.
  void expect_newest(const std::string& what, const std::vector<std::string>& endings) const {
    for (const std::string& ending : endings) {
      const std::string end = what + ending;
      EXPECT_EQ(files(end), 64u) << end;
      EXPECT_FALSE(std::filesystem::exists(results_ + "/20200101-000000.032-" + end));
      EXPECT_TRUE(std::filesystem::exists(results_ + "/20200101-000000.033-" + end));
    }
    EXPECT_EQ(files("-notes" + endings.front()), 96u);
    EXPECT_EQ(files(".core"), 1u);
  }

  SystemClock clock_;
  PosixFileSystem files_;
  AnsweringNode<Collector, Order, Answer> node_;
  asio::thread_pool disk_{1};
  const std::string attempt_ = (folder_ / "attempts/000").string();
  const std::string results_;
  Collector collector_{executor(), clock_, node_, disk_, files_, RunFolder(folder_.string())};
};

}  // namespace train
