#include "launcher/dashboard/log_cursor.h"

#include <fmt/format.h>

#include <charconv>

namespace train {
namespace {

template <class T>
bool take_number(std::string_view& text, T& value) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_point(std::string_view& text) {
  if (!text.starts_with('.')) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string log_cursor_text(const LogCursor& cursor) {
  std::string text;
  for (const auto& [key, position] : cursor.positions)
    if (position > 0)
      text += fmt::format("{}{}.{}.{}", text.empty() ? "" : "_", key.first, key.second, position);
  return text;
}

Result<LogCursor> parse_log_cursor(std::string_view text) {
  LogCursor cursor;
  while (!text.empty()) {
    StreamKey key;
    std::uint64_t position = 0;
    const bool whole = take_number(text, key.first) && take_point(text) &&
                       take_number(text, key.second) && take_point(text) &&
                       take_number(text, position) && cursor.positions.size() < kLogStreamsMax &&
                       (text.empty() || text.starts_with('_'));
    if (!whole)
      return Error{Errc::InvalidArgument, "after=… is no answer's `after`", "leave it out"};
    cursor.positions[key] = position;
    text.remove_prefix(std::min<std::size_t>(text.size(), 1));
  }
  return cursor;
}

}  // namespace train
