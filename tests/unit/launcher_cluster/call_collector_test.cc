// Calls of workers' functions: what reaches the nodes, and what is made of their answers.
#include "launcher/cluster/run/call_collector.h"

#include <gmock/gmock.h>

#include "lib/wire/codec.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Attempt kAttempt{3};
constexpr NodeId kFirst{0}, kSecond{1};

/// Nodes that answer as a test says.
class Nodes final : public NodeLinks {
 public:
  void send(NodeId node, const Frame& frame) override {
    const auto order = decode<CallWorkers>(frame);
    ASSERT_TRUE(order);
    orders.emplace_back(node, *order);
    EXPECT_EQ(frame.attempt, kAttempt);
    if (on_order) on_order(node, *order);
  }
  std::string name(NodeId) const override { return "n"; }
  std::optional<NodeId> find(const std::string&) const override { return {}; }
  std::vector<NodeId> up() const override { return {kFirst, kSecond}; }

  std::vector<std::pair<NodeId, CallWorkers>> orders;
  std::function<void(NodeId, const CallWorkers&)> on_order;
};

class CallCollectorTest : public NetTest {
 protected:
  CallAnswers call(CallCollector::Places places, Duration within = seconds(30)) {
    CallAnswers answers;
    run([&]() -> asio::awaitable<void> {
      WorkerCall call{.name = "f", .argument = "[1]"};
      call.within = within;
      auto calling = collector_.call(kAttempt, std::move(places), std::move(call));
      const auto answered = co_await std::move(calling);
      if (answered) answers = *answered;
    });
    return answers;
  }
  void answer(NodeId node, const CallWorkers& order, std::int32_t rank, const std::string& result,
              const std::string& error = "", const std::string& kind = "") {
    collector_.received({kAttempt, node}, WorkerAnswered{.rank = rank,
                                                         .request = order.request,
                                                         .result = result,
                                                         .error = error,
                                                         .kind = kind});
  }

  SystemClock clock_;
  Nodes nodes_;
  CallCollector collector_{executor(), clock_, nodes_};
  const CallCollector::Places two_{{Rank{0}, kFirst}, {Rank{1}, kSecond}};
};

TEST_F(CallCollectorTest, EachNodeHearsOfItsRanksAndAnswersComeInTheirOrder) {
  nodes_.on_order = [&](NodeId node, const CallWorkers& order) {
    for (auto rank = order.ranks.rbegin(); rank != order.ranks.rend(); ++rank)
      answer(node, order, *rank, std::to_string(*rank * 10));
  };

  const CallAnswers answers = call({{Rank{0}, kFirst}, {Rank{1}, kSecond}, {Rank{2}, kFirst}});

  EXPECT_THAT(answers.ranks, ElementsAre(RankAnswer{Rank{0}, "0"}, RankAnswer{Rank{1}, "10"},
                                         RankAnswer{Rank{2}, "20"}));
  ASSERT_EQ(nodes_.orders.size(), 2u);
  EXPECT_THAT(nodes_.orders[0].second.ranks, ElementsAre(0, 2));
  EXPECT_EQ(nodes_.orders[0].second.name, "f");
  EXPECT_EQ(nodes_.orders[0].second.argument, "[1]");
}

TEST_F(CallCollectorTest, ARankWithoutAWorkerHasAnErrorAndNobodyIsAsked) {
  const CallAnswers answers = call({{Rank{5}, std::nullopt}});
  EXPECT_THAT(answers.ranks, ElementsAre(RankAnswer{Rank{5}, "", "it has no worker now", "lost"}));
  EXPECT_TRUE(nodes_.orders.empty());
  EXPECT_EQ(call({}).error, "the run has no workers now");
}

TEST_F(CallCollectorTest, TheRankThatThrewFirstIsTold) {
  nodes_.on_order = [&](NodeId node, const CallWorkers& order) {
    if (node == kFirst) return;
    answer(kFirst, order, 0, "", "it was refused", "refused");
    answer(kSecond, order, 2, "", "a mistake", "thrown");
    answer(kSecond, order, 1, "", "rank 2 is gone", "thrown");
  };
  const auto answers = call({{Rank{0}, kFirst}, {Rank{1}, kSecond}, {Rank{2}, kSecond}});
  EXPECT_EQ(answers.first_thrown, Rank{2});
  EXPECT_EQ(answers.ranks[1].rank, Rank{1});
  EXPECT_EQ(call({{Rank{0}, std::nullopt}}).first_thrown, std::nullopt);
}

TEST_F(CallCollectorTest, WhatAProgramAnswersIsNotTrusted) {
  nodes_.on_order = [&](NodeId node, const CallWorkers& order) {
    if (node == kSecond) return answer(node, order, 1, "{no json");
    collector_.received({Attempt{2}, kFirst},
                        WorkerAnswered{.rank = 0, .request = order.request, .result = "2"});
    answer(kSecond, order, 0, "3");  // another node's rank
    answer(kFirst, order, 7, "4");   // nobody's
    answer(kFirst, order, 0, "", std::string("a\x1b[31m"));
    answer(kFirst, order, 0, "5");  // a second answer
  };

  const CallAnswers answers = call(two_);

  ASSERT_EQ(answers.ranks.size(), 2u);
  EXPECT_THAT(answers.ranks[0].error, HasSubstr("a"));
  EXPECT_THAT(answers.ranks[1].error, HasSubstr("its answer is no JSON value"));
}

TEST_F(CallCollectorTest, TheAnswersOfAllRanksTogetherAreBounded) {
  const std::string large = '"' + std::string(500'000, 'x') + '"';
  CallCollector::Places places;
  for (std::int32_t rank = 0; rank < 20; ++rank) places[Rank{rank}] = kFirst;
  nodes_.on_order = [&](NodeId node, const CallWorkers& order) {
    for (const std::int32_t rank : order.ranks) answer(node, order, rank, large);
  };

  const CallAnswers answers = call(places);

  ASSERT_EQ(answers.ranks.size(), 20u);
  EXPECT_EQ(answers.ranks[15].error, "");
  EXPECT_EQ(answers.ranks[17].error,
            "the answers of all ranks have more than 8 MiB: call fewer ranks");
}

TEST_F(CallCollectorTest, ErrorsCountAsAnswersToo) {
  const std::string large(4096, 'x');
  CallCollector::Places places;
  for (std::int32_t rank = 0; rank < 3000; ++rank) places[Rank{rank}] = kFirst;
  nodes_.on_order = [&](NodeId node, const CallWorkers& order) {
    for (const std::int32_t rank : order.ranks) answer(node, order, rank, "", large);
  };

  const CallAnswers answers = call(places);

  EXPECT_EQ(answers.ranks.at(0).error, large);
  EXPECT_LT(answers.ranks.at(2999).error.size(), 100u);
}

TEST_F(CallCollectorTest, ACallEndsWithItsTimeOrItsAttempt) {
  nodes_.on_order = [&](NodeId node, const CallWorkers& order) {
    if (node == kFirst) answer(node, order, 0, "1");
  };
  CallAnswers answers = call(two_, milliseconds(20));
  EXPECT_EQ(answers.ranks.at(0).result, "1");
  EXPECT_EQ(answers.ranks.at(1).error,
            "no answer within 20 ms: a program answers in its next report() or poll()");

  nodes_.on_order = [&](NodeId node, const CallWorkers& order) {
    if (node == kFirst) return answer(node, order, 0, "1");
    collector_.attempt_ended(Attempt{2});
    collector_.attempt_ended(kAttempt);
  };
  answers = call(two_);
  EXPECT_EQ(answers.ranks.at(0).result, "1");
  EXPECT_EQ(answers.ranks.at(1).error, "attempt 3 ended before it answered");
}

}  // namespace
}  // namespace train
