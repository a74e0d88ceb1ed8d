#include "launcher/report/output_lines.h"

#include <fmt/format.h>

#include <iterator>

#include "launcher/report/terminal_text.h"

namespace train {
namespace {

std::string_view last_state(std::string_view line) {
  while (line.ends_with('\r')) line.remove_suffix(1);
  const auto overwritten = line.rfind('\r');
  return overwritten == std::string_view::npos ? line : line.substr(overwritten + 1);
}

// Bytes of `text`, at most `bytes_max`, that do not end inside a UTF-8 sequence.
std::size_t whole_prefix(std::string_view text, std::size_t bytes_max) {
  std::size_t bytes = bytes_max;
  while (bytes > bytes_max - 4 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return bytes;
}

}  // namespace

std::string OutputLines::feed(std::string_view node, std::int32_t rank, int stream,
                              std::string_view data, bool end) {
  std::string& partial = partial_[{rank, stream}];
  std::string out;
  for (auto newline = data.find('\n'); newline != std::string_view::npos;
       newline = data.find('\n')) {
    partial += data.substr(0, newline);
    append_line(out, node, rank, partial);
    partial.clear();
    data.remove_prefix(newline + 1);
  }
  partial += data;
  if (const auto state = last_state(partial);
      state.size() < partial.size() && !partial.ends_with('\r')) {
    partial = std::string(
        state);  // what a progress bar wrote over is never shown: keep no more than its last state
  }
  while (partial.size() > kLineBytesMax) {
    const std::size_t bytes = whole_prefix(partial, kLineBytesMax);
    append_line(out, node, rank, std::string_view(partial).substr(0, bytes));
    partial.erase(0, bytes);
  }
  if (end) {
    if (!partial.empty()) append_line(out, node, rank, partial);
    partial_.erase({rank, stream});
  }
  return out;
}

void OutputLines::append_line(std::string& out, std::string_view node, std::int32_t rank,
                              std::string_view line) const {
  line = last_state(line);
  while (line.size() > kLineBytesMax) {
    const std::size_t bytes = whole_prefix(line, kLineBytesMax);
    append_part(out, node, rank, line.substr(0, bytes));
    line.remove_prefix(bytes);
  }
  append_part(out, node, rank, line);
}

void OutputLines::append_part(std::string& out, std::string_view node, std::int32_t rank,
                              std::string_view part) const {
  if (for_terminal_) {
    out += fmt::format("[{} {}] {}\n", terminal_safe(node), rank, terminal_safe(part));
  } else {
    fmt::format_to(std::back_inserter(out), "[{} {}] {}\n", node, rank, part);
  }
}

}  // namespace train
