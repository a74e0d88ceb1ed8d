// Profiles come from the nodes, in pieces, into files of the run's folder.
#include "launcher/cluster/run/profile_collector.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lib/base/text_file.h"
#include "lib/profile/profile_codec.h"
#include "tests/unit/launcher_cluster/collector_fixture.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
constexpr NodeId kNode{0};
constexpr Attempt kAttempt{0};

class ProfileCollectorTest : public CollectorTest<ProfileCollector, TakeProfile, ProfileTaken> {
 protected:
  ProfileCollectorTest() : CollectorTest("profiles") {}

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

  const std::string profile_ =
      encode_profile({.facts = {.engine = "perf_event", .lasted = seconds(5)},
                      .frames = {{"thread worker", "", ""}, {"step()", "worker", ""}},
                      .stacks = {{{0, 1}, 7}}});
};

TEST_F(ProfileCollectorTest, WritesAFileOfEachFormat) {
  answer(profile_);

  const RequestAnswer found = collect();

  EXPECT_EQ(found.error, "");
  EXPECT_TRUE(found.path.starts_with(results_)) << found.path;
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
  EXPECT_FALSE(fs::exists(results_));
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
  const std::vector<std::string> endings{kProfileEndings.begin(), kProfileEndings.end()};
  make_old_results("rank-0000-cpu", endings);
  answer(profile_);
  EXPECT_EQ(collect(0).error, "");
  expect_newest("rank-0000-cpu", endings);
}

}  // namespace
}  // namespace train
