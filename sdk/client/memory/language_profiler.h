// A profiler of memory that the program itself offers, since it knows the functions of the
// program's language: memray, for Python. It is used in place of the SDK's own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/allocation_stack.h"

namespace train::sdk {

/// Collects stacks whose frames have names. Its size is bounded: what finds no place counts for one
/// stack named "[other stacks]".
class NamedStacks {
 public:
  /// `frames`: names, the innermost first, each on a line; at most kAllocationDepthMax are kept.
  void add(std::string_view frames, std::uint64_t allocated, std::uint64_t live,
           std::uint64_t samples);

  /// Return the stacks, whose addresses are indices in names().
  std::vector<AllocationStack> take();
  const std::vector<std::string>& names() const { return names_; }

  // Within the supervisor's own limits (memory_profiles.h), which ends the connection of a worker
  // that exceeds them.
  static constexpr std::size_t kStacksMax = 16384;
  static constexpr std::size_t kAddressesMax = 1 << 20;   // of all stacks
  static constexpr std::size_t kNamesMax = 65535;         // and "[other stacks]"
  static constexpr std::size_t kNameBytesMax = 512;       // the rest of a longer one is cut off
  static constexpr std::size_t kNamesBytesMax = 2 << 20;  // of all together

 private:
  /// Return the index of a name, or kNone if there is no room for it.
  std::uint64_t index_of(std::string_view name);

  std::vector<std::string> names_;
  std::map<std::string, std::uint64_t, std::less<>> indices_;
  std::size_t name_bytes_ = 0;
  std::vector<AllocationStack> stacks_;
  std::size_t addresses_ = 0;  // of stacks_
  AllocationStack others_;
};

struct LanguageProfiler {
  std::string engine;  // its name
  /// Begin to watch. Return why it cannot, or "".
  std::function<std::string()> begin;
  /// End it, and tell what was seen. Return why that failed, or "".
  std::function<std::string(NamedStacks&)> end;
};

/// Offer a profiler, or withdraw it: without `begin`. If one is at work, ask it to end, and wait
/// until it has. Any thread may call it, except those on which `begin` and `end` run.
void offer_language_profiler(LanguageProfiler profiler);

/// Holds the profiler that is offered, while it is used; offer_language_profiler() waits for it.
class LanguageProfilerUse {
 public:
  LanguageProfilerUse();
  ~LanguageProfilerUse();
  LanguageProfilerUse(const LanguageProfilerUse&) = delete;
  LanguageProfilerUse& operator=(const LanguageProfilerUse&) = delete;

  /// Null if none is offered.
  const LanguageProfiler* profiler() const;
  /// Return whether somebody waits for this use to end.
  bool is_unwanted() const;
};

}  // namespace train::sdk
