// Which answers are under way to a rank, and whether another one may follow. HTTP/2 bounds nothing:
// what a rank has not read yet piles up in its process. Pure.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>

#include "lib/data/serve/messages.h"

namespace train::data {

class Credit {
 public:
  void set_bytes_max(std::int64_t bytes) { bytes_max_ = bytes; }
  /// Return whether an answer of one byte more may be sent.
  bool has_room() const { return fits(1); }
  /// Take a slot for an answer if it fits, or if nothing is under way.
  std::optional<std::uint32_t> take(std::int64_t bytes) {
    if (!fits(bytes)) return std::nullopt;
    std::uint32_t slot = 0;
    while (slots_[slot]) ++slot;
    slots_[slot] = bytes;
    ++used_;
    used_bytes_ += bytes;
    return slot;
  }
  /// Protocol if it is not taken.
  Result<Unit> release(std::uint32_t slot) {
    if (slot >= slots_.size() || !slots_[slot])
      return Error{Errc::Protocol, fmt::format("slot {} is released, and was not in use", slot)};
    --used_;
    used_bytes_ -= *slots_[slot];
    slots_[slot].reset();
    return Unit{};
  }

 private:
  bool fits(std::int64_t bytes) const {
    return used_ == 0 || (used_ < kSlotsMax && bytes <= bytes_max_ - used_bytes_);
  }

  std::int64_t bytes_max_ = 0;
  std::array<std::optional<std::int64_t>, kSlotsMax> slots_ = {};  // the bytes of each answer
  std::size_t used_ = 0;
  std::int64_t used_bytes_ = 0;
};

}  // namespace train::data
