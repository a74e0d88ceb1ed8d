// Profiles and samples travel as bytes; nothing that others send gets past the limits.
#include "lib/profile/profile_codec.h"

#include <gtest/gtest.h>

namespace train {
namespace {

Profile example() {
  return {.facts = {.kind = ProfileKind::Wall,
                    .engine = "ptrace",
                    .executable = "/bin/worker",
                    .pid = 42,
                    .lasted = seconds{5},
                    .period = milliseconds{50},
                    .cpu_time = milliseconds{20},
                    .lost = 3,
                    .guessed = 1,
                    .notes = {"a note"}},
          .frames = {{"thread worker", "", ""}, {"step()", "worker", "worker.cc"}},
          .stacks = {{{0, 1}, 7}, {{0}, 1}}};
}

TEST(ProfileCodec, BringsAProfileBack) {
  const auto decoded = decode_profile(encode_profile(example()));
  ASSERT_TRUE(decoded) << decoded.error().describe();
  EXPECT_EQ(*decoded, example());
}

TEST(ProfileCodec, BringsAProfileOfMemoryBack) {
  Profile profile = example();
  profile.facts.kind = ProfileKind::Memory;
  profile.facts.sample_bytes = 512u << 10;
  profile.facts.memory_samples = 9;
  profile.stacks[0].samples = std::uint64_t{5} << 40;
  const auto decoded = decode_profile(encode_profile(profile));
  ASSERT_TRUE(decoded) << decoded.error().describe();
  EXPECT_EQ(*decoded, profile);
}

TEST(ProfileCodec, RefusesWhatIsCutOrTooLong) {
  const std::string bytes = encode_profile(example());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_profile(bytes.substr(0, size))) << size;
  EXPECT_FALSE(decode_profile(bytes + "x"));
}

TEST(ProfileCodec, RefusesFramesThatAreNotThere) {
  Profile profile = example();
  profile.stacks[0].frames[1] = 2;
  EXPECT_FALSE(decode_profile(encode_profile(profile)));
}

TEST(ProfileCodec, KeepsNumbersWithinWhatIsShown) {
  Profile profile = example();
  profile.facts.period = Duration::max();
  profile.stacks[0].samples = ~std::uint64_t{0};
  const auto decoded = decode_profile(encode_profile(profile));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->facts.period, std::chrono::hours{24});
  EXPECT_EQ(decoded->stacks[0].samples, kProfileSamplesMax);
}

TEST(ProfileCodec, BringsSamplesBack) {
  const SampleBatch batch{.other_process = "loader",
                          .of_memory = true,
                          .samples = {1, std::uint64_t{5} << 40},
                          .process = {.pid = 7, .threads = {{}, {.sp = 9}}}};
  const auto decoded = decode_samples(encode_samples(batch));
  ASSERT_TRUE(decoded) << decoded.error().describe();
  EXPECT_EQ(decoded->other_process, "loader");
  EXPECT_TRUE(decoded->of_memory);
  EXPECT_EQ(decoded->samples, batch.samples);
  EXPECT_EQ(decoded->process, batch.process);
  EXPECT_FALSE(decode_samples(encode_samples(batch) + "x"));
}

}  // namespace
}  // namespace train
