// The distinct stacks of samples, and what was allocated by each. Any thread may call; it takes no
// lock and no memory. What does not fit counts for one stack without addresses.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/allocation_stack.h"

namespace train::sdk {

class SampledStacks {
 public:
  static constexpr std::uint32_t kStacksMax = 16384;
  static constexpr std::size_t kAddressesMax = std::size_t{1} << 20;  // of all stacks

  /// Return the number of a stack.
  std::uint32_t number_of(std::span<void* const> addresses) {
    addresses = addresses.first(std::min(addresses.size(), kAllocationDepthMax));
    const std::uint64_t hash = hash_of(addresses);
    for (std::uint32_t probe = 0; probe < kProbesMax; ++probe) {
      const auto number = static_cast<std::uint32_t>((hash + probe) % kStacksMax);
      Stack& stack = stacks_[number];
      std::uint64_t known = stack.hash.load(std::memory_order_acquire);
      if (known == 0 && stack.hash.compare_exchange_strong(known, hash, std::memory_order_acq_rel))
        return keep(stack, addresses) ? number : kOthers;
      if (known == hash) return number;
    }
    return kOthers;
  }
  void allocated(std::uint32_t number, std::uint64_t bytes) {
    stacks_[number].allocated.fetch_add(bytes, std::memory_order_relaxed);
    stacks_[number].samples.fetch_add(1, std::memory_order_relaxed);
  }
  void freed(std::uint32_t number, std::uint64_t bytes) {
    stacks_[number].freed.fetch_add(bytes, std::memory_order_relaxed);
  }

  /// Return all stacks that have allocated something. Call it when nobody samples any more.
  std::vector<AllocationStack> all() const {
    std::vector<AllocationStack> found;
    for (const Stack& stack : stacks_) {
      const std::uint64_t samples = stack.samples.load(std::memory_order_relaxed);
      if (samples == 0) continue;
      const std::uint64_t bytes = stack.allocated.load(std::memory_order_relaxed);
      const std::uint64_t freed = stack.freed.load(std::memory_order_relaxed);
      AllocationStack one{
          .allocated = bytes, .live = bytes - std::min(bytes, freed), .samples = samples};
      if (const std::size_t depth = stack.depth.load(std::memory_order_acquire))
        one.addresses.assign(addresses_.begin() + stack.first,
                             addresses_.begin() + stack.first + static_cast<std::ptrdiff_t>(depth));
      found.push_back(std::move(one));
    }
    return found;
  }

 private:
  static constexpr std::uint32_t kProbesMax = 64;
  static constexpr std::uint32_t kOthers = kStacksMax;

  struct Stack {
    std::atomic<std::uint64_t> hash;  // 0: the place is free
    std::atomic<std::uint32_t> depth;
    std::uint32_t first;  // its place in addresses_
    std::atomic<std::uint64_t> allocated, freed, samples;
  };

  /// FNV-1a, over words. Two of 16,384 stacks have the same one with a probability of 1 in 10¹¹.
  static std::uint64_t hash_of(std::span<void* const> addresses) {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const void* address : addresses) {
      hash = (hash ^ reinterpret_cast<std::uintptr_t>(address)) * 0x100000001b3;
      hash ^= hash >> 29;
    }
    return hash == 0 ? 1 : hash;
  }
  /// Keep a stack's addresses. Without room for them, its place stays without any.
  bool keep(Stack& stack, std::span<void* const> addresses) {
    const std::size_t first = used_.fetch_add(addresses.size(), std::memory_order_relaxed);
    if (first + addresses.size() > kAddressesMax) return false;
    for (std::size_t i = 0; i < addresses.size(); ++i)
      addresses_[first + i] = reinterpret_cast<std::uintptr_t>(addresses[i]);
    stack.first = static_cast<std::uint32_t>(first);
    stack.depth.store(static_cast<std::uint32_t>(addresses.size()), std::memory_order_release);
    return true;
  }

  // Zeros are valid empty tables.
  std::atomic<std::size_t> used_;
  std::array<Stack, kStacksMax + 1> stacks_;  // the last: all others
  std::array<std::uint64_t, kAddressesMax> addresses_;
};

}  // namespace train::sdk
