// A profile: the stacks that samples of a rank's threads have shown, and how often each; or the
// stacks that have allocated memory, and how much. Plain values; all texts come from others'
// programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"

namespace train {

enum class ProfileKind { Cpu, Wall, Memory };

constexpr std::string_view to_string(ProfileKind kind) {
  return kind == ProfileKind::Cpu ? "cpu" : kind == ProfileKind::Wall ? "wall" : "memory";
}
constexpr std::optional<ProfileKind> profile_kind(std::string_view name) {
  if (name == "cpu") return ProfileKind::Cpu;
  if (name == "wall") return ProfileKind::Wall;
  if (name == "memory") return ProfileKind::Memory;
  return std::nullopt;
}

/// A function, whatever its line. The outermost frame of each stack has only `function`: a thread,
/// or in a profile of memory kLiveMemory or kFreedMemory.
struct ProfileFrame {
  std::string function{};  // with parameters; empty: unknown, then `module` names the frame
  std::string module{};    // the file that holds the code, without its folder; or empty
  std::string file{};      // of the source; or empty
  auto operator<=>(const ProfileFrame&) const = default;
};

/// The outermost frames of a profile of memory: what became of it until the profile's end.
inline constexpr std::string_view kLiveMemory = "[still allocated]";
inline constexpr std::string_view kFreedMemory = "[freed]";

struct ProfileStack {
  std::vector<std::uint32_t> frames{};  // indices in Profile::frames, outermost first
  std::uint64_t samples = 0;            // of a profile of memory: bytes
  bool operator==(const ProfileStack&) const = default;
};

/// How the samples were taken.
struct ProfileFacts {
  ProfileKind kind = ProfileKind::Cpu;
  std::string engine{};      // "perf_event", "ptrace" or "py-spy"; of memory: "the SDK" or "memray"
  std::string executable{};  // of the rank's program
  std::int64_t pid = 0;
  Duration lasted{0};
  Duration period{0};                // the time that a sample stands for
  Duration cpu_time{0};              // of the rank's processes meanwhile
  std::uint64_t sample_bytes = 0;    // of memory: the bytes that a sample stands for; 0: no samples
  std::uint64_t memory_samples = 0;  // of memory
  std::uint64_t lost = 0;            // samples that could not be kept
  std::uint64_t guessed = 0;         // samples whose outer frames may be wrong
  std::vector<std::string> notes{};
  bool operator==(const ProfileFacts&) const = default;
};

struct Profile {
  ProfileFacts facts{};
  std::vector<ProfileFrame> frames{};
  std::vector<ProfileStack> stacks{};  // distinct
  bool operator==(const Profile&) const = default;
};

// Bounds of a profile, as it is collected and as it travels.
inline constexpr std::size_t kProfileBytesMax = 16u << 20;  // of frames and stacks
inline constexpr std::size_t kProfileDepthMax = 600;
inline constexpr std::size_t kProfileNotesMax = 32;
inline constexpr std::uint64_t kProfileSamplesMax = std::uint64_t{1} << 48;  // of a stack
inline constexpr Duration kProfileTimeMax = seconds{60};

/// Return how a frame is called where there is little room: without return type and parameters.
std::string short_name(const ProfileFrame& frame);
/// Return the complete name of a frame, "[libfoo.so]" if its function is not known.
std::string full_name(const ProfileFrame& frame);
/// Return the number of samples of all stacks, or of a profile of memory the bytes.
std::uint64_t samples_of(const Profile& profile);
/// Return the bytes of a profile of memory that were still allocated at its end.
std::uint64_t live_bytes_of(const Profile& profile);
/// Return whether a stack is of memory that was still allocated.
bool is_live(const Profile& profile, const ProfileStack& stack);

}  // namespace train
