#include "launcher/report/output_lines.h"

#include <fmt/format.h>

#include "lib/base/terminal_text.h"

namespace train {
namespace {

std::string_view last_state(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const auto overwritten = line.rfind('\r');
  return overwritten == std::string_view::npos ? line : line.substr(overwritten + 1);
}

// Return how many bytes of `text`, at most `bytes_max`, to take without splitting a UTF-8 sequence.
std::size_t whole_prefix(std::string_view text, std::size_t bytes_max) {
  std::size_t bytes = bytes_max;
  while (bytes > bytes_max - 4 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return bytes;
}

void append_line(std::string& out, std::string_view prefix, std::string_view line) {
  line = last_state(line);
  do {
    const std::size_t bytes = line.size() > StreamLines::kLineBytesMax
                                  ? whole_prefix(line, StreamLines::kLineBytesMax)
                                  : line.size();
    out += fmt::format("{}{}\n", prefix, terminal_safe(line.substr(0, bytes)));
    line.remove_prefix(bytes);
  } while (!line.empty());
}

}  // namespace

std::string StreamLines::feed(std::string_view prefix, std::string_view data, bool end) {
  std::string out;
  for (auto newline = data.find('\n'); newline != std::string_view::npos;
       newline = data.find('\n')) {
    partial_ += data.substr(0, newline);
    append_line(out, prefix, partial_);
    partial_.clear();
    data.remove_prefix(newline + 1);
  }
  partial_ += data;
  // What a progress bar has overwritten is never shown: keep only its last state. Whether that is
  // overwritten too shows with what follows.
  const bool may_be_overwritten = partial_.ends_with('\r');
  partial_ = std::string(last_state(partial_));
  if (may_be_overwritten) partial_ += '\r';
  while (partial_.size() > kLineBytesMax) {
    const std::size_t bytes = whole_prefix(partial_, kLineBytesMax);
    append_line(out, prefix, std::string_view(partial_).substr(0, bytes));
    partial_.erase(0, bytes);
  }
  if (end && !partial_.empty()) append_line(out, prefix, std::exchange(partial_, ""));
  return out;
}

std::string OutputLines::feed(std::string_view node, std::int32_t rank, int stream,
                              std::string_view data, bool end) {
  StreamLines& lines = open_[{rank, stream}];
  std::string out = lines.feed(fmt::format("[{} {}] ", terminal_safe(node), rank), data, end);
  if (end) open_.erase({rank, stream});
  return out;
}

}  // namespace train
