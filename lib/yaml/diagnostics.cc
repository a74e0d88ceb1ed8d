#include "lib/yaml/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "lib/base/secrets.h"
#include "lib/base/utf8.h"

namespace train::yaml {
namespace {

constexpr std::size_t kLineShownBytesMax = 160;
constexpr std::size_t kQuotedBytesMax = 80;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues_character(c); }));
}

/// Replace each unsafe character by exactly one other, so that the caret stays below the right one:
/// a tab becomes a space, and what steers a terminal or is not UTF-8 becomes a question mark.
std::string harmless(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const CodePoint next = read_code_point(text);
    if (next.valid && next.value != '\t' && !is_steering(next.value))
      out += text.substr(0, next.length);
    else
      out += next.valid && next.value == '\t' ? ' ' : '?';
    text.remove_prefix(next.length);
  }
  return out;
}

std::string_view line_of(const Source& source, int line) {
  std::string_view rest = source.text;
  for (int i = 1; i < line; ++i) {
    const std::size_t end = rest.find('\n');
    if (end == std::string_view::npos) return {};
    rest.remove_prefix(end + 1);
  }
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

struct MarkedLine {
  std::string text;
  std::size_t caret = 0;  // the byte that the caret points at
};

/// Redact a line. The caret stays below its character, or moves to the mark that hides it.
MarkedLine redacted_line(std::string_view line, std::size_t caret) {
  const std::string before = redacted(line.substr(0, caret));
  std::string text = redacted(line);
  const auto same = std::mismatch(before.begin(), before.end(), text.begin(), text.end()).first;
  caret = static_cast<std::size_t>(same - before.begin());
  return {std::move(text), caret};
}

}  // namespace

std::string Position::file_and_line() const {
  if (source == nullptr) return "default";
  return fmt::format("{}:{}", source->name, shown_line());
}

std::string Position::seen_from(const Position& here) const {
  return source != nullptr && source == here.source ? fmt::format("line {}", shown_line())
                                                    : file_and_line();
}

void Diagnostics::error(const Position& at, std::string message, std::string hint) {
  if (++errors_ > 10 * kShownMax + 1) return;  // only count it: each may be long
  list_.push_back({Severity::Error, at, std::move(message), std::move(hint)});
}

void Diagnostics::warning(const Position& at, std::string message, std::string hint) {
  list_.push_back({Severity::Warning, at, std::move(message), std::move(hint)});
}

std::string Diagnostics::error_text() const {
  std::vector<const Diagnostic*> errors;
  for (const Diagnostic& d : list_) {
    if (d.severity == Severity::Error) errors.push_back(&d);
  }
  const auto location = [](const Diagnostic* d) {
    return std::make_tuple(d->at.source == nullptr ? -1 : d->at.source->order, d->at.line,
                           d->at.column);
  };
  std::stable_sort(errors.begin(), errors.end(), [&](const Diagnostic* a, const Diagnostic* b) {
    return location(a) < location(b);
  });
  std::string text;
  for (std::size_t i = 0; i < errors.size() && i < kShownMax; ++i) text += render(*errors[i]);
  if (errors.size() > kShownMax)
    text += fmt::format("and {} more errors\n", errors.size() - kShownMax);
  return text;
}

std::vector<std::string> Diagnostics::warnings() const {
  std::vector<std::string> texts;
  std::size_t more = 0;
  for (const Diagnostic& d : list_) {
    if (d.severity != Severity::Warning) continue;
    if (texts.size() < kShownMax)
      texts.push_back(render(d));
    else
      ++more;
  }
  if (more > 0) texts.push_back(fmt::format("and {} more warnings\n", more));
  return texts;
}

std::string render(const Diagnostic& d) {
  const std::string_view kind = d.severity == Severity::Error ? "error" : "warning";
  const std::string message = redacted(d.message);
  if (d.at.source == nullptr) {
    return fmt::format("{}: {}{}\n", kind, message,
                       d.hint.empty() ? "" : fmt::format(" ({})", d.hint));
  }
  const std::string_view written = line_of(*d.at.source, d.at.line);
  const std::size_t written_before =
      std::min(static_cast<std::size_t>(std::max(d.at.column, 1) - 1), written.size());
  const std::size_t column = characters(written.substr(0, written_before)) + 1;

  const auto [text, before] = redacted_line(written, written_before);
  const std::string_view line = text;
  std::size_t from = 0;
  if (line.size() > kLineShownBytesMax && before > kLineShownBytesMax / 2)
    from = before - kLineShownBytesMax / 2;
  while (from > 0 && continues_character(line[from])) --from;
  std::size_t size = std::min(kLineShownBytesMax, line.size() - from);
  while (from + size < line.size() && continues_character(line[from + size])) ++size;
  const std::string shown = (from > 0 ? "..." : "") + harmless(line.substr(from, size)) +
                            (from + size < line.size() ? "..." : "");
  const std::size_t indent = characters(line.substr(from, before - from)) + (from > 0 ? 3 : 0);

  const std::string number = fmt::format("  {} |", d.at.shown_line());
  return fmt::format("{}:{}:{}: {}: {}\n{} {}\n{:>{}} {:{}}^{}{}\n", d.at.source->name,
                     d.at.shown_line(), column, kind, message, number, shown, "|", number.size(),
                     "", indent, d.hint.empty() ? "" : " ", d.hint);
}

std::string in_quotes(std::string_view text) {
  if (text.size() <= kQuotedBytesMax) return fmt::format("\"{}\"", harmless(text));
  std::size_t size = kQuotedBytesMax;
  while (size > 0 && continues_character(text[size])) --size;
  return fmt::format("\"{}...\"", harmless(text.substr(0, size)));
}

}  // namespace train::yaml
