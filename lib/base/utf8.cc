#include "lib/base/utf8.h"

#include <algorithm>
#include <array>

namespace train {
namespace {

struct Range {
  std::uint32_t first, last;
};

constexpr bool within(std::uint32_t value, Range range) {
  return range.first <= value && value <= range.last;
}

// Unicode 15, EastAsianWidth.txt: the blocks that are W or F, joined where only unassigned code
// points lie between them.
constexpr std::array kWide = {
    Range{0x1100, 0x115F},   Range{0x2E80, 0x303E},   Range{0x3041, 0x33FF},
    Range{0x3400, 0x4DBF},   Range{0x4E00, 0x9FFF},   Range{0xA000, 0xA4CF},
    Range{0xAC00, 0xD7A3},   Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE6F},
    Range{0xFF00, 0xFF60},   Range{0xFFE0, 0xFFE6},   Range{0x1F300, 0x1F64F},
    Range{0x1F680, 0x1F6FF}, Range{0x1F900, 0x1F9FF}, Range{0x20000, 0x3FFFD}};
constexpr std::array kCombining = {
    Range{0x0300, 0x036F}, Range{0x1AB0, 0x1AFF}, Range{0x1DC0, 0x1DFF}, Range{0x200B, 0x200D},
    Range{0x20D0, 0x20FF}, Range{0xFE00, 0xFE0F}, Range{0xFE20, 0xFE2F}};
constexpr std::array kSteering = {Range{0x00, 0x1F},     Range{0x7F, 0x9F},
                                  Range{0x061C, 0x061C}, Range{0x200E, 0x200F},
                                  Range{0x2028, 0x202E}, Range{0x2066, 0x206F}};

template <std::size_t N>
bool in_any(std::uint32_t value, const std::array<Range, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [value](Range range) { return within(value, range); });
}

}  // namespace

CodePoint read_code_point(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const int length = lead >= 0xF0 && lead <= 0xF4  ? 4
                     : lead >= 0xE0 && lead < 0xF0 ? 3
                     : lead >= 0xC2 && lead < 0xE0 ? 2
                                                   : 0;
  if (length == 0 || text.size() < static_cast<std::size_t>(length)) return {};
  std::uint32_t value = lead & (0x7Fu >> length);
  for (int i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = (value << 6) | (byte(i) & 0x3Fu);
  }
  constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kLeast[static_cast<std::size_t>(length)] || value > 0x10FFFF ||
      within(value, {0xD800, 0xDFFF}))
    return {};
  return {value, static_cast<std::uint8_t>(length), true};
}

bool is_steering(std::uint32_t code_point) { return in_any(code_point, kSteering); }

std::string utf8_text(std::string_view text, std::size_t bytes_max) {
  constexpr std::string_view kCut = "...", kUnknown = "\xEF\xBF\xBD";
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (text.size() <= bytes_max && std::all_of(text.begin(), text.end(), is_ascii))
    return std::string(text);
  std::string out;
  std::size_t fits = 0;  // bytes of `out` that fit with kCut after them
  while (!text.empty()) {
    const CodePoint next = read_code_point(text);
    out += next.valid ? text.substr(0, next.length) : kUnknown;
    if (out.size() > bytes_max) return out.substr(0, fits).append(kCut.substr(0, bytes_max - fits));
    if (out.size() + kCut.size() <= bytes_max) fits = out.size();
    text.remove_prefix(next.length);
  }
  return out;
}

int columns_of(std::uint32_t code_point) {
  if (code_point < 0x300) return 1;
  if (in_any(code_point, kCombining)) return 0;
  return in_any(code_point, kWide) ? 2 : 1;
}

}  // namespace train
