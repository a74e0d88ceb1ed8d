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

inline constexpr int kJsonDepthMax = 100;

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
    Quoted,  // the same, and ends of lines in quoted values do not count (RFC 4180)
    Json,    // a line is blank if it has only spaces; any other must be one object
  };

  /// Begin a new unit at the first line that starts `unit_bytes` or more after the unit's start.
  /// `offset` is that of the first byte. `delimiter` stands between Quoted values.
  TextUnits(Lines lines, std::int64_t unit_bytes, std::int64_t offset = 0, char delimiter = ',');

  /// Count the next bytes. An error if a unit grows beyond kTextUnitMax, or if a line of Json is no
  /// object, or is nested deeper than kJsonDepthMax: Arrow's parser would overflow its stack.
  Result<Unit> add(std::string_view bytes);
  /// Return the units; the last line may have no end, but an object of Json must.
  Result<std::vector<TextUnit>> finish();

 private:
  enum class In { ValueStart, Plain, Quotes, QuoteSeen };

  std::size_t line_end(std::string_view bytes);
  Result<Unit> check_object(std::string_view line);
  Error no_object() const;
  Result<Unit> end_line();

  Lines lines_;
  std::int64_t unit_bytes_;
  char delimiter_;
  std::int64_t at_;  // the offset of the next byte
  TextUnit unit_;
  bool blank_ = true;       // the line so far
  In in_ = In::ValueStart;  // Quoted
  int depth_ = 0;           // Json: of brackets
  bool in_text_ = false, escaped_ = false, closed_ = false;
  std::int64_t line_at_;
  std::vector<TextUnit> units_;
};

}  // namespace train::data
