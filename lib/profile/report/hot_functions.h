// What a profile says in a few lines: where the time, or the memory, went. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/profile/profile.h"

namespace train {

struct HotFunction {
  std::string name{};
  std::string module{};
  std::uint64_t self = 0;   // samples in which it ran itself; or bytes that are still allocated
  std::uint64_t total = 0;  // samples in which it, or what it had called, ran; or bytes allocated
  bool operator==(const HotFunction&) const = default;
};

/// Return the functions with the most samples of their own, at most `count`. Of a profile of
/// memory: those with the most bytes that are still allocated, then those that allocated the most.
/// Memory belongs to the innermost function that is none of the C++ library or an allocator.
std::vector<HotFunction> hot_functions(const Profile& profile, std::size_t count);

/// Whom a profile is of.
struct ProfiledRank {
  std::int32_t rank = 0;
  std::string node{};
};

/// Return "cpu profile of rank 3 on n2".
std::string profile_title(const Profile& profile, const ProfiledRank& whom);
/// Return a line: how long, how much of it on a processor (or how much memory was allocated), and
/// how that was sampled.
std::string describe_sampling(const Profile& profile);
/// Return a text for people, of lines: the title, the sampling, the hottest functions, the notes.
/// Steering characters are made visible.
std::string describe_profile(const Profile& profile, const ProfiledRank& whom);

}  // namespace train
