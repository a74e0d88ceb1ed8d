#include "lib/data/formats/text_units.h"

#include <fmt/format.h>

#include <algorithm>

namespace train::data {

TextUnits::TextUnits(Lines lines, std::int64_t unit_bytes, std::int64_t offset)
    : lines_(lines), unit_bytes_(unit_bytes), at_(offset), unit_{.offset = offset} {}

Result<Unit> TextUnits::add(std::string_view bytes) {
  const std::string_view blanks = lines_ == Lines::Json ? " \t\r" : "\r";
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end);
    if (blank_ && line.find_first_not_of(blanks) != std::string_view::npos) blank_ = false;
    if (lines_ == Lines::Quoted && std::count(line.begin(), line.end(), '"') % 2 == 1)
      in_quotes_ = !in_quotes_;
    const auto taken =
        static_cast<std::int64_t>(end == std::string_view::npos ? bytes.size() : end + 1);
    bytes.remove_prefix(static_cast<std::size_t>(taken));
    at_ += taken;
    unit_.length += taken;
    if (unit_.length > kTextUnitMax) {
      return Error{Errc::InvalidArgument,
                   fmt::format("from byte {} on, it has more than {} MiB that cannot be divided",
                               unit_.offset, kTextUnitMax >> 20),
                   in_quotes_ ? "a quote is not closed there, or the file needs shorter lines"
                              : "divide it into smaller files, or give it shorter lines"};
    }
    if (end != std::string_view::npos && !in_quotes_) end_line();
  }
  return Unit{};
}

void TextUnits::end_line() {
  if (!blank_) ++unit_.rows;
  blank_ = true;
  if (unit_.length < unit_bytes_) return;
  units_.push_back(unit_);
  unit_ = {.offset = at_};
}

std::vector<TextUnit> TextUnits::finish() {
  if (!blank_) ++unit_.rows;
  blank_ = true;
  if (unit_.length > 0) units_.push_back(unit_);
  unit_ = {.offset = at_};
  return std::move(units_);
}

}  // namespace train::data
