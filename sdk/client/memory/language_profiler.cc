#include "sdk/client/memory/language_profiler.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace train::sdk {
namespace {

constexpr std::uint64_t kNone = ~std::uint64_t{0};
constexpr std::string_view kOthers = "[other stacks]";

struct Offer {
  std::mutex mutex;
  std::condition_variable changed;
  LanguageProfiler profiler;
  bool in_use = false;
  int waiting = 0;  // for the use to end
};

Offer& offer() {
  static Offer* const one = new Offer;  // not destroyed: a thread may still use it at exit
  return *one;
}

}  // namespace

std::uint64_t NamedStacks::index_of(std::string_view name) {
  name = name.substr(0, kNameBytesMax);
  const auto found = indices_.find(name);
  if (found != indices_.end()) return found->second;
  const bool is_full = names_.size() >= kNamesMax || name_bytes_ + name.size() > kNamesBytesMax;
  if (name != kOthers && is_full) return kNone;
  name_bytes_ += name.size();
  names_.emplace_back(name);
  return indices_.emplace(name, names_.size() - 1).first->second;
}

void NamedStacks::add(std::string_view frames, std::uint64_t allocated, std::uint64_t live,
                      std::uint64_t samples) {
  AllocationStack stack{.allocated = allocated, .live = live, .samples = samples};
  bool fits = stacks_.size() < kStacksMax;
  while (fits && !frames.empty() && stack.addresses.size() < kAllocationDepthMax) {
    const std::string_view name = frames.substr(0, frames.find('\n'));
    frames.remove_prefix(std::min(name.size() + 1, frames.size()));
    stack.addresses.push_back(index_of(name));
    fits = stack.addresses.back() != kNone;
  }
  fits = fits && addresses_ + stack.addresses.size() <= kAddressesMax;
  if (fits) {
    addresses_ += stack.addresses.size();
    return stacks_.push_back(std::move(stack));
  }
  others_.addresses = {index_of(kOthers)};
  others_.allocated += allocated;
  others_.live += live;
  others_.samples += samples;
}

std::vector<AllocationStack> NamedStacks::take() {
  if (!others_.addresses.empty()) stacks_.push_back(std::exchange(others_, {}));
  addresses_ = 0;
  return std::exchange(stacks_, {});
}

void offer_language_profiler(LanguageProfiler profiler) {
  Offer& one = offer();
  std::unique_lock lock(one.mutex);
  ++one.waiting;
  one.changed.wait(lock, [&] { return !one.in_use; });
  --one.waiting;
  one.profiler = std::move(profiler);
}

LanguageProfilerUse::LanguageProfilerUse() {
  const std::lock_guard lock(offer().mutex);
  offer().in_use = true;
}

LanguageProfilerUse::~LanguageProfilerUse() {
  const std::lock_guard lock(offer().mutex);
  offer().in_use = false;
  offer().changed.notify_all();
}

const LanguageProfiler* LanguageProfilerUse::profiler() const {
  return offer().profiler.begin ? &offer().profiler : nullptr;  // it changes only while not in use
}

bool LanguageProfilerUse::is_unwanted() const {
  const std::lock_guard lock(offer().mutex);
  return offer().waiting > 0;
}

}  // namespace train::sdk
