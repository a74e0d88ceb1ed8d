#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace train {

struct Digest {  // xxh3, 128 bits
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Digest&) const = default;
};

/// Return 32 lower-case hex digits, the high half first (what `xxhsum -H128` prints).
inline std::string to_hex(const Digest& digest) {
  std::string hex;
  for (const std::uint64_t half : {digest.high, digest.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) hex += "0123456789abcdef"[half >> shift & 15];
  }
  return hex;
}

/// Parse exactly 32 lower-case hex digits; return nothing for any other text.
inline std::optional<Digest> parse_digest(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  Digest digest;
  for (std::size_t i = 0; i < hex.size(); ++i) {
    const std::size_t digit = std::string_view("0123456789abcdef").find(hex[i]);
    if (digit == std::string_view::npos) return std::nullopt;
    std::uint64_t& half = i < 16 ? digest.high : digest.low;
    half = half << 4 | digit;
  }
  return digest;
}

}  // namespace train
