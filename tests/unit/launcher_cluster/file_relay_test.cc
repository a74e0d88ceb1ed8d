#include "launcher/cluster/links/file_relay.h"

#include <gtest/gtest.h>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "tests/unit/launcher_cluster/fakes.h"

namespace train {
namespace {

constexpr const char* kLocation = "data-1-0.2/rank-0001";

struct StillClock final : Clock {
  TimePoint now() const override { return at; }
  std::chrono::system_clock::time_point wall() const override { return {}; }
  TimePoint at = TimePoint{} + std::chrono::hours(1);
};

class FileRelayTest : public testing::Test {
 protected:
  void ask(std::uint64_t id = 9) {
    ReadFile request{.id = id, .folder = kLocation, .path = "state.bin", .offset = 4};
    request.bytes = 3;
    relay_.ask(request, [this](const FileBytes& answer) { answers_.push_back(answer); });
  }
  /// Answer the last request to a node.
  void answer(const std::string& data, const std::string& error = "") {
    const auto [node, request] = asked_.back();
    FileBytes answer{.id = request.id, .offset = request.offset, .size = 7, .data = data};
    answer.error = error;
    relay_.answered(node, answer);
  }

  StillClock clock_;
  std::vector<std::pair<NodeId, ReadFile>> asked_;
  std::vector<FileBytes> answers_;
  FakeLinks links_{{NodeId{0}, NodeId{1}, NodeId{2}}, [this](NodeId node, const Frame& frame) {
                     asked_.emplace_back(node, *decode<ReadFile>(frame));
                     EXPECT_EQ(frame.attempt, kNoAttempt);
                   }};
  RecordedMessages messages_;
  FileRelay relay_{clock_, links_, messages_};
};

TEST_F(FileRelayTest, AsksANodeThatHasItAndPassesItsAnswerOn) {
  relay_.knows(kLocation, {"n2"});

  ask(9);
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].first, NodeId{2});
  EXPECT_EQ(asked_[0].second.folder, kLocation);
  EXPECT_EQ(asked_[0].second.path, "state.bin");
  EXPECT_EQ(asked_[0].second.offset, 4u);
  EXPECT_EQ(asked_[0].second.bytes, 3u);
  answer("abc");

  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].id, 9u);
  EXPECT_EQ(answers_[0].data, "abc");
  EXPECT_EQ(answers_[0].size, 7u);
}

TEST_F(FileRelayTest, SharesTheWorkAmongThoseThatHaveIt) {
  relay_.knows(kLocation, {"n1", "n2"});

  for (int i = 0; i < 4; ++i) ask();

  std::map<NodeId, int> times;
  for (const auto& [node, request] : asked_) ++times[node];
  EXPECT_EQ(times, (std::map<NodeId, int>{{NodeId{1}, 2}, {NodeId{2}, 2}}));
}

TEST_F(FileRelayTest, AsksTheOthersWhereOneHasItNot) {
  relay_.knows(kLocation, {"n1"});
  ask();
  EXPECT_EQ(asked_.back().first, NodeId{1});
  answer("", "gone");
  EXPECT_EQ(asked_.back().first, NodeId{0});
  answer("", "gone");
  EXPECT_EQ(asked_.back().first, NodeId{2});
  EXPECT_TRUE(answers_.empty());

  answer("", "gone");

  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].id, 9u);
  EXPECT_EQ(answers_[0].error_code, "corrupt");
  EXPECT_EQ(answers_[0].error,
            "'state.bin' of data-1-0.2/rank-0001 is not on any connected node; it was kept on "
            "n1");
}

TEST_F(FileRelayTest, AsksAnotherWhereOneIsLost) {
  relay_.knows(kLocation, {"n1", "n2"});
  ask();
  const NodeId first = asked_.back().first;

  std::erase(links_.answering, first);
  relay_.lost(first);

  EXPECT_EQ(asked_.size(), 2u);
  EXPECT_NE(asked_.back().first, first);
  answer("abc");
  EXPECT_EQ(answers_.size(), 1u);
}

TEST_F(FileRelayTest, AnAnswerOfAnotherNodeOrToAnotherQuestionCountsForNothing) {
  relay_.knows(kLocation, {"n1"});
  ask();

  relay_.answered(NodeId{2}, FileBytes{.id = asked_[0].second.id});
  relay_.answered(NodeId{1}, FileBytes{.id = asked_[0].second.id + 1});

  EXPECT_TRUE(answers_.empty());
}

TEST_F(FileRelayTest, ANodeThatIsAwayWithItIsWaitedForAMinute) {
  relay_.knows(kLocation, {"n3"});
  const auto ask_all = [&] {
    ask();
    for (int i = 0; i < 3; ++i) answer("", "none");
  };
  ask_all();
  EXPECT_TRUE(answers_.empty());
  EXPECT_EQ(
      messages_.phases,
      std::vector<std::string>{"waiting 60 s for n3: no other node has the files of a checkpoint"});
  clock_.at += std::chrono::seconds(59);
  ask_all();
  EXPECT_TRUE(answers_.empty());

  clock_.at += std::chrono::seconds(1);
  ask_all();

  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].error_code, "corrupt");
  EXPECT_EQ(messages_.phases.size(), 1u);
}

TEST_F(FileRelayTest, ForgetsThePlacesOfAttemptsThatAreOver) {
  relay_.knows(kLocation, {"n3"});
  relay_.forget(Attempt{0});

  ask();
  for (int i = 0; i < 3; ++i) answer("", "none");

  EXPECT_EQ(answers_.size(), 1u);
}

}  // namespace
}  // namespace train
