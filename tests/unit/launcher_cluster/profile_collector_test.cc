// Profiles come from the nodes, in pieces, into files of the run's folder.
#include "launcher/cluster/run/profile_collector.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <boost/asio/thread_pool.hpp>
#include <filesystem>
#include <fstream>

#include "lib/base/text_file.h"
#include "lib/profile/profile_codec.h"
#include "lib/storage/posix_file_system.h"
#include "lib/wire/codec.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
constexpr NodeId kNode{0};
constexpr Attempt kAttempt{0};

/// A node that answers each order with these messages.
class AnsweringNode final : public NodeLinks {
 public:
  void send(NodeId node, const Frame& frame) override {
    const auto order = decode<TakeProfile>(frame);
    ASSERT_TRUE(order);
    orders.push_back(*order);
    for (ProfileTaken answer : answers) {
      answer.request = order->request;
      collector->received({frame.attempt, node}, answer);
    }
  }
  std::string name(NodeId) const override { return "n0"; }
  std::optional<NodeId> find(const std::string&) const override { return kNode; }
  std::vector<NodeId> up() const override { return {kNode}; }

  ProfileCollector* collector = nullptr;
  std::vector<ProfileTaken> answers;
  std::vector<TakeProfile> orders;
};

class ProfileCollectorTest : public NetTest {
 protected:
  ProfileCollectorTest() { node_.collector = &collector_; }

  void answer(const std::string& bytes) {
    const std::size_t half = bytes.size() / 2;
    node_.answers = {{.data = bytes.substr(0, half)}, {.data = bytes.substr(half), .last = true}};
  }
  RequestAnswer collect(std::int32_t rank = 3) {
    Result<RequestAnswer> found = Error{};
    run([&]() -> asio::awaitable<void> {
      auto collecting = collector_.collect(
          kAttempt, kNode, {.rank = Rank{rank}, .kind = ProfileKind::Cpu, .time = seconds(5)});
      found = co_await std::move(collecting);
    });
    return found ? *found : RequestAnswer{};
  }
  std::size_t files(const std::string& ending) const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(profiles_))
      if (entry.path().string().ends_with(ending)) ++count;
    return count;
  }

  SystemClock clock_;
  PosixFileSystem files_;
  AnsweringNode node_;
  asio::thread_pool disk_{1};
  const std::string profiles_ = (folder_ / "attempts/000/profiles").string();
  ProfileCollector collector_{executor(), clock_, node_,
                              disk_,      files_, RunFolder(folder_.string())};
  const std::string profile_ =
      encode_profile({.facts = {.engine = "perf_event", .lasted = seconds(5)},
                      .frames = {{"thread worker", "", ""}, {"step()", "worker", ""}},
                      .stacks = {{{0, 1}, 7}}});
};

TEST_F(ProfileCollectorTest, WritesAFileOfEachFormat) {
  answer(profile_);

  const RequestAnswer found = collect();

  EXPECT_EQ(found.error, "");
  EXPECT_TRUE(found.path.starts_with(profiles_)) << found.path;
  EXPECT_TRUE(found.path.ends_with("-rank-0003-cpu.txt")) << found.path;
  EXPECT_THAT(read_text(found.path), HasSubstr("cpu profile of rank 3 on n0"));
  const std::string stem = found.path.substr(0, found.path.size() - 4);
  EXPECT_EQ(read_text(stem + ".folded"), "thread worker;step() 7\n");
  EXPECT_THAT(read_text(stem + ".speedscope.json"), HasSubstr("\"type\":\"sampled\""));
  EXPECT_THAT(read_text(stem + ".html"), HasSubstr("<!DOCTYPE html>"));
  EXPECT_EQ(node_.orders.at(0).rank, 3);
  EXPECT_EQ(node_.orders.at(0).kind, "cpu");
  EXPECT_EQ(node_.orders.at(0).time_ms, 5000u);
}

TEST_F(ProfileCollectorTest, SaysWhyThereIsNone) {
  node_.answers = {{.last = true, .error = "it is busy"}};
  EXPECT_EQ(collect(), (RequestAnswer{"", "it is busy"}));
  answer("no profile");
  EXPECT_THAT(collect().error, HasSubstr("a profile is cut short"));
  node_.answers.assign(40, {.data = std::string(1u << 20, 'x')});
  EXPECT_EQ(collect().error, "the profile has more than 32 MiB");
  EXPECT_FALSE(fs::exists(profiles_));
}

TEST_F(ProfileCollectorTest, TakesOneOfARankAndFourAtATime) {
  Scope scope(executor());
  std::vector<std::string> errors;
  run([&]() -> asio::awaitable<void> {
    const auto collect_one = [](ProfileCollector& collector, std::int32_t rank,
                                std::vector<std::string>& all) -> asio::awaitable<void> {
      auto collecting = collector.collect(kAttempt, kNode, {.rank = Rank{rank}});
      const auto found = co_await std::move(collecting);
      if (found) all.push_back(found->error);
    };
    for (const std::int32_t rank : {0, 1, 1, 2, 3, 4})
      scope.spawn("profile", collect_one(collector_, rank, errors));
    while (errors.size() < 2) (void)co_await pause_for(1ms);
    scope.cancel();
    co_await scope.join();
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"another profile of rank 1 is being taken",
                                              "4 other profiles of this run are being taken"}));
  EXPECT_EQ(node_.orders.size(), 4u);
}

TEST_F(ProfileCollectorTest, TheEndOfAnAttemptIsAnAnswer) {
  Scope scope(executor());
  std::vector<std::string> errors;
  run([&]() -> asio::awaitable<void> {
    const auto collect_one = [](ProfileCollector& collector, Attempt attempt, std::int32_t rank,
                                std::vector<std::string>& all) -> asio::awaitable<void> {
      auto collecting = collector.collect(attempt, kNode, {.rank = Rank{rank}});
      const auto found = co_await std::move(collecting);
      if (found) all.push_back(found->error);
    };
    scope.spawn("profile", collect_one(collector_, Attempt{2}, 0, errors));
    scope.spawn("profile", collect_one(collector_, Attempt{3}, 1, errors));
    while (node_.orders.size() < 2) (void)co_await pause_for(1ms);
    collector_.attempt_ended(Attempt{2});
    while (errors.empty()) (void)co_await pause_for(1ms);
    scope.cancel();
    co_await scope.join();
  });
  EXPECT_EQ(errors, std::vector<std::string>{"attempt 2 ended before the profile was complete"});
}

TEST_F(ProfileCollectorTest, AnswersOfOthersAndToOthersCountForNothing) {
  answer(profile_);
  collector_.received({kAttempt, kNode}, {.request = 1, .data = "x", .last = true});
  node_.answers.insert(node_.answers.begin(), ProfileTaken{});
  EXPECT_EQ(collect().error, "");
}

// Others may keep files there, too.
TEST_F(ProfileCollectorTest, RemovesTheOldestOfItsOwnFilesAndNoOthers) {
  fs::create_directories(profiles_);
  for (int i = 0; i < 100; ++i) {
    for (const char* ending : kProfileEndings)
      std::ofstream(fmt::format("{}/20200101-000000.{:03}-rank-0000-cpu{}", profiles_, i, ending))
          << "old";
    std::ofstream(fmt::format("{}/{:03}-notes.html", profiles_, i)) << "mine";
  }
  answer(profile_);
  EXPECT_EQ(collect().error, "");
  EXPECT_EQ(files("-notes.html"), 100u);
  for (const char* ending : kProfileEndings)
    EXPECT_EQ(files(std::string("-cpu") + ending), 64u) << ending;
  EXPECT_FALSE(fs::exists(profiles_ + "/20200101-000000.036-rank-0000-cpu.txt"));
  EXPECT_TRUE(fs::exists(profiles_ + "/20200101-000000.037-rank-0000-cpu.txt"));
}

}  // namespace
}  // namespace train
