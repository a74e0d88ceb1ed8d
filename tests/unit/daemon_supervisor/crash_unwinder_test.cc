// Crashes of many workers at the same time: how many programs unwind them, and who gets which
// stack.
#include "daemon/supervisor/workers/crash_unwinder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <map>

#include "lib/net/scope.h"

namespace train {
namespace {

using testing::ElementsAre;

/// What the thread that unwinds does, and what it was given. The threads run one after the other:
/// that is what is tested.
struct Unwound {
  std::promise<void> may_go_on;
  std::shared_future<void> goes_on{may_go_on.get_future()};
  std::atomic<int> at_a_time = 0, most_at_a_time = 0;
  std::vector<std::vector<pid_t>> batches;
  std::vector<TimePoint> deadlines;

  std::vector<CrashStack> unwind(const std::vector<ProcessCapture>& captures, TimePoint deadline) {
    most_at_a_time = std::max<int>(most_at_a_time, ++at_a_time);
    goes_on.wait();
    std::vector<CrashStack> stacks;
    batches.emplace_back();
    deadlines.push_back(deadline);
    for (const ProcessCapture& capture : captures) {
      batches.back().push_back(capture.pid);
      stacks.push_back({.place = std::to_string(capture.pid)});
    }
    --at_a_time;
    return stacks;
  }
};

asio::awaitable<void> crash(CrashUnwinder& unwinder, pid_t pid, TimePoint deadline,
                            std::map<pid_t, std::string>& places) {
  auto unwinding = unwinder.stack_of({.pid = pid}, deadline);
  auto stack = co_await std::move(unwinding);
  places[pid] = stack ? stack->place : stack.error().message;
}

TEST(CrashUnwinder, UnwindsTogetherWhatComesWhileItUnwinds) {
  asio::io_context context;
  const auto unwound = std::make_shared<Unwound>();
  CrashUnwinder unwinder(context.get_executor(), [unwound](const auto& captures, TimePoint until) {
    return unwound->unwind(captures, until);
  });
  std::map<pid_t, std::string> places;
  Scope scope(context.get_executor());
  const auto at = [](int second) { return TimePoint{} + seconds(second); };
  for (const pid_t pid : {11, 12, 13, 14})
    scope.spawn("crash", crash(unwinder, pid, at(pid), places));
  asio::post(context, [&] { unwound->may_go_on.set_value(); });  // all have come

  context.run();

  EXPECT_EQ(unwound->most_at_a_time, 1);
  EXPECT_THAT(unwound->batches, ElementsAre(ElementsAre(11), ElementsAre(12, 13, 14)));
  EXPECT_THAT(unwound->deadlines, ElementsAre(at(11), at(12)));
  EXPECT_EQ(places, (std::map<pid_t, std::string>{{11, "11"}, {12, "12"}, {13, "13"}, {14, "14"}}));
}

}  // namespace
}  // namespace train
