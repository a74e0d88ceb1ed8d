#include "lib/data/formats/text_units.h"

#include <fmt/format.h>

#include <algorithm>

namespace train::data {

TextUnits::TextUnits(Lines lines, std::int64_t unit_bytes, std::int64_t offset, char delimiter)
    : lines_(lines),
      unit_bytes_(unit_bytes),
      delimiter_(delimiter),
      at_(offset),
      unit_{.offset = offset},
      line_at_(offset) {}

Result<Unit> TextUnits::add(std::string_view bytes) {
  const std::string_view blanks = lines_ == Lines::Json ? " \t\r" : "\r";
  while (!bytes.empty()) {
    const std::size_t end = line_end(bytes);
    const std::string_view line = bytes.substr(0, end);
    if (blank_ && line.find_first_not_of(blanks) != std::string_view::npos) blank_ = false;
    if (lines_ == Lines::Json) {
      TRY_VOID(check_object(line));
    }
    const auto taken =
        static_cast<std::int64_t>(end == std::string_view::npos ? bytes.size() : end + 1);
    bytes.remove_prefix(static_cast<std::size_t>(taken));
    at_ += taken;
    unit_.length += taken;
    if (unit_.length > kTextUnitMax) {
      return Error{Errc::InvalidArgument,
                   fmt::format("from byte {} on, it has more than {} MiB that cannot be divided",
                               unit_.offset, kTextUnitMax >> 20),
                   in_ == In::Quotes
                       ? "a quote is not closed there, or the file needs shorter lines"
                       : "divide it into smaller files, or give it shorter lines"};
    }
    if (end != std::string_view::npos) {
      TRY_VOID(end_line());
    }
  }
  return Unit{};
}

/// Return where the line ends in `bytes`; npos: not in them.
std::size_t TextUnits::line_end(std::string_view bytes) {
  if (lines_ != Lines::Quoted) return bytes.find('\n');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (in_ == In::Quotes) {
      if (c == '"') in_ = In::QuoteSeen;
    } else if (c == '\n') {
      in_ = In::ValueStart;
      return i;
    } else if (c == delimiter_) {
      in_ = In::ValueStart;
    } else if (c == '"' && in_ != In::Plain) {
      in_ = In::Quotes;  // the first of a value, or two within one
    } else {
      in_ = In::Plain;
    }
  }
  return std::string_view::npos;
}

Error TextUnits::no_object() const {
  return Error{Errc::InvalidArgument,
               fmt::format("the line from byte {} on is not one JSON object", line_at_),
               "write one object a line"};
}

Result<Unit> TextUnits::check_object(std::string_view line) {
  std::int64_t at = at_;
  for (const char c : line) {
    if (at++ < 3 && (c == '\xEF' || c == '\xBB' || c == '\xBF')) continue;  // UTF-8's mark
    if (in_text_) {
      if (!escaped_ && c == '"') in_text_ = false;
      escaped_ = !escaped_ && c == '\\';
    } else if (c == '{' || c == '[') {
      if (depth_ == 0 && (closed_ || c == '[')) return no_object();
      if (++depth_ > kJsonDepthMax) {
        return Error{Errc::InvalidArgument,
                     fmt::format("the line from byte {} on is nested deeper than {}", line_at_,
                                 kJsonDepthMax)};
      }
    } else if (c == '}' || c == ']') {
      if (depth_ == 0) return no_object();
      closed_ = --depth_ == 0;
    } else if (c == '"' && depth_ > 0) {
      in_text_ = true;
    } else if (depth_ == 0 && c != ' ' && c != '\t' && c != '\r') {
      return no_object();
    }
  }
  return Unit{};
}

Result<Unit> TextUnits::end_line() {
  if (depth_ > 0) return no_object();
  if (!blank_) ++unit_.rows;
  blank_ = true;
  closed_ = false;
  line_at_ = at_;
  if (unit_.length < unit_bytes_) return Unit{};
  units_.push_back(unit_);
  unit_ = {.offset = at_};
  return Unit{};
}

Result<std::vector<TextUnit>> TextUnits::finish() {
  TRY_VOID(end_line());
  if (unit_.length > 0) units_.push_back(unit_);
  unit_ = {.offset = at_};
  return std::move(units_);
}

}  // namespace train::data
