#include "launcher/report/output_lines.h"

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

void give_line(const StreamLines::Sink& sink, std::string_view line, std::size_t taken) {
  line = last_state(line);
  do {
    const std::size_t bytes = line.size() > StreamLines::kLineBytesMax
                                  ? whole_prefix(line, StreamLines::kLineBytesMax)
                                  : line.size();
    sink(terminal_safe(line.substr(0, bytes)), taken);
    line.remove_prefix(bytes);
  } while (!line.empty());
}

}  // namespace

void StreamLines::feed(std::string_view data, bool end, const Sink& sink) {
  std::size_t taken = 0;
  for (auto newline = data.find('\n'); newline != std::string_view::npos;
       newline = data.find('\n')) {
    partial_ += data.substr(0, newline);
    taken += newline + 1;
    give_line(sink, partial_, taken);
    partial_.clear();
    data.remove_prefix(newline + 1);
  }
  taken += data.size();
  partial_ += data;
  // What a progress bar has overwritten is never shown: keep only its last state. Whether that is
  // overwritten too shows with what follows.
  const bool may_be_overwritten = partial_.ends_with('\r');
  partial_ = std::string(last_state(partial_));
  if (may_be_overwritten) partial_ += '\r';
  while (partial_.size() > kLineBytesMax) {
    const std::size_t bytes = whole_prefix(partial_, kLineBytesMax);
    give_line(sink, std::string_view(partial_).substr(0, bytes), taken);
    partial_.erase(0, bytes);
  }
  if (end && !partial_.empty()) give_line(sink, std::exchange(partial_, ""), taken);
}

}  // namespace train
