// The bytes of a profile between trainrun-unwind, the supervisor and the launcher, and those of
// samples on their way to trainrun-unwind. Decoding checks every length and every index, and
// refuses what is left over.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/profile/profile.h"
#include "lib/stacks/process_capture.h"

namespace train {

std::string encode_profile(const Profile& profile);
Result<Profile> decode_profile(std::string_view bytes);

/// The most bytes that an encoded profile has: its frames and stacks, and its facts.
inline constexpr std::size_t kEncodedProfileBytesMax = 2 * kProfileBytesMax;

/// Samples of one process: each of its `threads` is one, or stands for several. Of memory, a
/// thread is a stack that has allocated some, its name is the outermost frame, and its samples are
/// bytes.
struct SampleBatch {
  std::string other_process{};  // the name of the process if it is not the rank's program
  bool of_memory = false;
  std::vector<std::uint64_t> samples{};  // of each of the threads
  ProcessCapture process{};
};

std::string encode_samples(const SampleBatch& batch);
Result<SampleBatch> decode_samples(std::string_view payload);

}  // namespace train
