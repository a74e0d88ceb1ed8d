// What the SDK has seen becomes a profile with the names of functions: of this process.
#include "lib/profile/sampling/allocation_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/profile/report/profile_formats.h"
#include "lib/stacks/process_reader.h"

namespace train {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

[[gnu::noinline]] std::uint64_t return_address() {
  return reinterpret_cast<std::uint64_t>(__builtin_return_address(0));
}
[[gnu::noinline]] std::uint64_t place_that_allocates() {
  const std::uint64_t address = return_address();
  asm volatile("");  // no tail call
  return address;
}

ProcessCapture this_process() { return ProcessReader(::getpid(), 0).describe(); }

TEST(AllocationProfile, NamesTheFunctions) {
  const std::uint64_t place = place_that_allocates();
  const auto profile = allocation_profile(
      {{.addresses = {place}, .allocated = std::uint64_t{5} << 40, .live = 3, .samples = 2},
       {.addresses = {}, .allocated = 7, .live = 9, .samples = 1}},
      {.lasted_ns = 1'500'000'000, .sample_bytes = 4096, .entries = 5}, this_process());
  ASSERT_TRUE(profile) << profile.error().describe();

  const std::string folded = folded_stacks(*profile);
  EXPECT_THAT(folded, HasSubstr("[still allocated];"));
  EXPECT_THAT(folded, HasSubstr("place_that_allocates() 3\n"));
  EXPECT_THAT(folded, HasSubstr("place_that_allocates() 5497558138877\n"));
  EXPECT_THAT(folded, HasSubstr("[still allocated];[unknown] 7\n"));  // never more than allocated
  EXPECT_EQ(profile->facts.kind, ProfileKind::Memory);
  EXPECT_EQ(profile->facts.pid, ::getpid());
  EXPECT_EQ(profile->facts.lasted, milliseconds{1500});
  EXPECT_EQ(profile->facts.memory_samples, 3u);
  EXPECT_EQ(profile->facts.sample_bytes, 4096u);
  EXPECT_THAT(profile->facts.notes, IsEmpty());
}

TEST(AllocationProfile, HasAllStacksOfMany) {
  const std::uint64_t place = place_that_allocates();
  std::vector<AllocationStack> stacks(
      5000, {.addresses = std::vector<std::uint64_t>(kAllocationDepthMax, place),
             .allocated = 2,
             .live = 1});
  const auto profile = allocation_profile(stacks, {.sample_bytes = 1}, this_process());
  ASSERT_TRUE(profile) << profile.error().describe();
  EXPECT_EQ(samples_of(*profile), 10'000u);
  EXPECT_EQ(live_bytes_of(*profile), 5'000u);
}

TEST(AllocationProfile, TellsWhatIsMissing) {
  const auto profile =
      allocation_profile({{.addresses = {1}, .allocated = 2048}},
                         {.sample_bytes = 1, .unwatched = 1024}, this_process(), {"/bin/false"});
  ASSERT_TRUE(profile) << profile.error().describe();
  EXPECT_THAT(profile->facts.notes,
              Contains("1.0 KiB of the memory may have been freed: there was more than could be "
                       "watched"));
  EXPECT_THAT(profile->facts.notes,
              Contains(HasSubstr("2.0 KiB have no stacks: the program that unwinds them ")));
}

}  // namespace
}  // namespace train
