// Merges samples into a profile of bounded size. Pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/profile/profile.h"
#include "lib/stacks/process_stacks.h"

namespace train {

class ProfileBuilder {
 public:
  explicit ProfileBuilder(std::size_t bytes_max = kProfileBytesMax) : bytes_left_(bytes_max) {}

  /// Count samples of a stack, outermost frame first. If a new stack has no room, its samples count
  /// for "[other stacks]" below its outermost frame.
  void add(const std::vector<ProfileFrame>& frames, std::uint64_t samples);
  /// Add the stacks of another profile, its notes, and the samples that it has lost or guessed.
  void add(const Profile& other);
  /// Count each thread's stack as often as the thread at the same place in `samples` says.
  /// `other_process`: the name of the process if it is not the rank's program.
  void add(const ProcessStacks& process, const std::vector<std::uint64_t>& samples,
           std::string_view other_process);
  /// Count the bytes that each stack has allocated. A "thread" is a stack, and its name the
  /// outermost frame. The functions that only pass the request on (malloc, operator new) are left
  /// out.
  void add_memory(const ProcessStacks& process, const std::vector<std::uint64_t>& bytes);

  ProfileFacts& facts() { return facts_; }
  /// Return the profile, its stacks in the order of their frames' names.
  Profile take() &&;

 private:
  /// Returns the index of a frame of a stack by its place there, the outermost first; nothing if it
  /// is new and there is no room.
  using IndexAt =
      std::function<std::optional<std::uint32_t>(std::size_t place, std::size_t& bytes_left)>;

  std::optional<std::uint32_t> index_of(const ProfileFrame& frame, std::size_t& bytes_left);
  void add(std::size_t depth, const IndexAt& index_at, std::uint64_t samples);
  bool count(std::size_t depth, const IndexAt& index_at, std::uint64_t samples,
             std::size_t& bytes_left);

  ProfileFacts facts_;
  std::size_t bytes_left_;
  std::size_t spare_bytes_ = 64u << 10;  // for "[other stacks]", once nothing else fits
  std::map<ProfileFrame, std::uint32_t> indices_;
  std::map<std::vector<std::uint32_t>, std::uint64_t> stacks_;
};

/// Add a note, once, unless there are too many.
void add_note(ProfileFacts& facts, const std::string& note);

}  // namespace train
