// Cuts a text file into units of whole lines and counts their rows, without parsing them. Pure: the
// bytes come in pieces of any size, and anybody may have written them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

/// The most bytes of one unit, so of one line, and of one compressed file when it is unpacked:
/// Arrow's parsers count in 31 bits.
inline constexpr std::int64_t kTextUnitMax = std::int64_t{1} << 30;

struct TextUnit {
  std::int64_t offset = 0;
  std::int64_t length = 0;
  std::int64_t rows = 0;  // lines that are not blank
  bool operator==(const TextUnit&) const = default;
};

class TextUnits {
 public:
  enum class Lines {
    Plain,   // a line is blank if it is empty
    Quoted,  // and an end of line within double quotes belongs to the value (RFC 4180)
    Json,    // a line of spaces is blank too
  };

  /// Begin a new unit at the first line that starts `unit_bytes` or more after the unit's start.
  /// `offset` is that of the first byte.
  TextUnits(Lines lines, std::int64_t unit_bytes, std::int64_t offset = 0);

  /// Count the next bytes. An error if a unit grows beyond kTextUnitMax.
  Result<Unit> add(std::string_view bytes);
  /// Return the units; the last line may have no end.
  std::vector<TextUnit> finish();

 private:
  void end_line();

  Lines lines_;
  std::int64_t unit_bytes_;
  std::int64_t at_;  // the offset of the next byte
  TextUnit unit_;
  bool blank_ = true;  // the line so far
  bool in_quotes_ = false;
  std::vector<TextUnit> units_;
};

}  // namespace train::data
