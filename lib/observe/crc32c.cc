#include "lib/observe/crc32c.h"

#include <array>

namespace train {
namespace {

constexpr std::array<std::uint32_t, 256> kTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (0x82F63B78u & (0u - (value & 1u)));
    table[i] = value;
  }
  return table;
}();

}  // namespace

std::uint32_t crc32c(std::string_view data) {
  std::uint32_t value = 0xFFFFFFFFu;
  for (const char c : data)
    value = kTable[(value ^ static_cast<std::uint8_t>(c)) & 0xFF] ^ (value >> 8);
  return value ^ 0xFFFFFFFFu;
}

}  // namespace train
