// Passes texts from others to a terminal, a log or JSON. No control character is left, a safe text
// stays as it is, and pieces give the same lines as the complete text.
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "launcher/report/failure_text.h"
#include "launcher/report/output_lines.h"
#include "lib/base/json_text.h"
#include "lib/base/terminal_text.h"
#include "lib/base/utf8.h"
#include "lib/storage/manifest.h"

namespace {

using namespace train;

void require(bool holds) {
  if (!holds) std::abort();
}

/// `allowed`: the only control character that may stay.
bool is_harmless(std::string_view text, std::uint32_t allowed) {
  while (!text.empty()) {
    const CodePoint next = read_code_point(text);
    if (!next.valid) return false;
    if (is_steering(next.value) && next.value != '\t' && next.value != allowed) return false;
    text.remove_prefix(next.length);
  }
  return true;
}

void check_terminal(std::string_view text) {
  const std::string line = terminal_safe(text);
  require(is_harmless(line, '\t') && terminal_safe(line) == line);
  const std::string lines = terminal_safe_lines(text);
  require(is_harmless(lines, '\n') && terminal_safe_lines(lines) == lines);
  for (const int columns : {0, 2, 10, 80}) {
    const std::string cut = cut_to_columns(line, columns);
    require(columns_of(cut) <= columns && is_harmless(cut, '\t'));
  }
}

void check_json(std::string_view text) {
  std::string json;
  append_json_string(json, text);
  require(is_harmless(json, '\t'));
  boost::system::error_code failed;
  require(boost::json::parse(json, failed).is_string() && !failed);
}

void check_lines(std::string_view text, std::size_t cut) {
  if (text.size() > StreamLines::kLineBytesMax) return;  // a long line is cut at the end of a piece
  StreamLines whole, pieces;
  std::string all, parts;
  const auto into = [](std::string& out) {
    return [&out](std::string_view line, std::size_t) { out.append(line) += '\n'; };
  };
  whole.feed(text, true, into(all));
  pieces.feed(text.substr(0, cut), false, into(parts));
  pieces.feed(text.substr(cut), true, into(parts));
  require(all == parts);
  require(is_harmless(all, '\n'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_terminal(text);
  check_json(text);
  check_lines(text, std::min<std::size_t>(data[0], text.size()));
  require(is_harmless(escape_name(text), '\t'));
  const std::string utf8 = utf8_text(text, data[0]);
  require(utf8.size() <= data[0] && utf8_text(utf8, data[0]) == utf8);
  WorkerFailure failure;
  failure.end.error = UserError{std::string(text), "", ""};
  require(failure_text(failure).cause.size() <= kCauseBytesMax + 256);
  return 0;
}
