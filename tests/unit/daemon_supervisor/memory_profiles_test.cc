// The supervisor asks a worker's SDK for its memory, makes a profile of the answer, and believes
// nothing in it.
#include <gmock/gmock.h>

#include "lib/profile/profile_codec.h"
#include "lib/profile/report/profile_formats.h"
#include "lib/wire/worker_messages.h"
#include "tests/unit/daemon_supervisor/worker_link.h"

namespace train {
namespace {

using testing::HasSubstr;

class MemoryProfilesTest : public WorkerLink {
 protected:
  /// Have a launcher ask for a profile, and return what the worker hears of it.
  std::optional<TakeMemoryProfile> ask(std::uint64_t request, std::uint32_t time_ms = 1) {
    supervisor_.send(TakeProfile{.request = request, .kind = "memory", .time_ms = time_ms});
    return hear<TakeMemoryProfile>();
  }
  std::string error() { return supervisor_.wait_for<ProfileTaken>().error; }
};

TEST_F(MemoryProfilesTest, AnAnswerInPiecesIsAProfile) {
  const auto order = ask(7, 1234);
  ASSERT_TRUE(order);
  EXPECT_EQ(order->time_ms, 1234u);
  ASSERT_TRUE(say(AllocationStacks{.request = order->request,
                                   .stacks = {{.addresses = {1}, .allocated = 10, .live = 4}}}));
  ASSERT_TRUE(say(AllocationStacks{.request = order->request + 1, .last = true}));  // nobody's
  ASSERT_TRUE(say(AllocationStacks{.request = order->request,
                                   .stacks = {{.allocated = 5, .samples = 2}},
                                   .last = true,
                                   .facts = {.lasted_ns = 9, .sample_bytes = 3}}));

  const auto taken = supervisor_.wait_for<ProfileTaken>();
  EXPECT_EQ(taken.request, 7u);
  EXPECT_EQ(taken.error, "");
  EXPECT_TRUE(taken.last);
  const auto profile = decode_profile(taken.data);
  ASSERT_TRUE(profile);
  EXPECT_EQ(folded_stacks(*profile),
            "[freed];[unknown] 11\n"
            "[still allocated];[unknown] 4\n");
  EXPECT_EQ(profile->facts.sample_bytes, 3u);
  // The shell of the worker's command, or what it has become by now.
  EXPECT_THAT(profile->facts.executable,
              testing::AnyOf(testing::EndsWith("/sleep"), testing::MatchesRegex("/.*sh")));
}

TEST_F(MemoryProfilesTest, SayWhyThereIsNone) {
  const auto order = ask(1);
  ASSERT_TRUE(order);
  ASSERT_TRUE(say(AllocationStacks{.request = order->request, .last = true, .error = "no"}));
  EXPECT_EQ(error(), "no");

  ASSERT_TRUE(ask(2, 60'000));
  link_.reset();
  EXPECT_EQ(error(), "the worker closed its connection before the profile was complete");

  supervisor_.send(TakeProfile{.request = 3, .kind = "memory", .time_ms = 1});
  EXPECT_THAT(error(), HasSubstr("its program does not use trainrun's SDK"));

  knows_memory_profiles_ = false;
  join("old");
  supervisor_.send(TakeProfile{.request = 4, .kind = "memory", .time_ms = 1});
  EXPECT_THAT(error(), HasSubstr("an SDK that knows no profiles of memory"));
}

TEST_F(MemoryProfilesTest, AnAnswerWithoutEndEndsTheConnection) {
  const auto order = ask(1, 60'000);
  ASSERT_TRUE(order);
  const AllocationStacks piece{
      .request = order->request,
      .stacks = std::vector<AllocationStack>(4096, {.addresses = std::vector<std::uint64_t>(64)})};
  for (int i = 0; i < 100; ++i) {
    if (!say(piece)) break;
  }
  EXPECT_EQ(error(), "the worker closed its connection before the profile was complete");
  expect_ended_for("a profile of memory exceeds a limit");
}

TEST_F(MemoryProfilesTest, AStackThatIsTooDeepEndsTheConnection) {
  const auto order = ask(1, 60'000);
  ASSERT_TRUE(order);
  const std::vector<std::uint64_t> deep(kAllocationDepthMax + 1);
  ASSERT_TRUE(say(AllocationStacks{.request = order->request, .stacks = {{.addresses = deep}}}));
  expect_ended_for("a profile of memory exceeds a limit");
}

}  // namespace
}  // namespace train
