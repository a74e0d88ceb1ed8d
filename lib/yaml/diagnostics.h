// This file collects the mistakes in a text that a person wrote. They are collected over a whole
// pass, then shown together, each with its place, the source line, and a caret with advice. It
// knows nothing of YAML.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace train::yaml {

/// A text that positions point into. `name` is what the reader sees: a path, or "--set".
struct Source {
  std::string name;
  std::string text;
  int first_line = 1;  // the number of the text's first line: overrides are lines of one text
  int order = 0;       // diagnostics are sorted by it
};

/// A place in a source, 1-based. Columns count bytes here, and characters when they are shown. A
/// null source means a value that nobody wrote.
struct Position {
  const Source* source = nullptr;
  int line = 1;
  int column = 1;
  int shown_line() const { return source == nullptr ? 0 : line + source->first_line - 1; }
  /// Return "job.yaml:14", or "--set".
  std::string file_and_line() const;
  /// Return the same for a reader who looks at `here`: "line 14" when both are in the same text.
  std::string seen_from(const Position& here) const;
  bool operator==(const Position&) const = default;
};

enum class Severity { Error, Warning };

struct Diagnostic {
  Severity severity = Severity::Error;
  Position at;
  std::string message;  // lower case, no final full stop, the found and the needed value
  std::string hint;     // beside the caret; may be empty
};

/// Not thread-safe; lives as long as one parse.
class Diagnostics {
 public:
  void error(const Position& at, std::string message, std::string hint = {});
  void warning(const Position& at, std::string message, std::string hint = {});
  bool has_errors() const { return errors_ > 0; }
  /// Return whether there are far more errors than are shown. A caller that could report one for
  /// each pair of values then stops.
  bool has_enough() const { return errors_ > 10 * kErrorsShownMax; }

  /// Return all errors in the order of their places, ready to print: at most kErrorsShownMax, then
  /// the number of those left out.
  std::string error_text() const;
  std::vector<std::string> warnings() const;

  static constexpr std::size_t kErrorsShownMax = 100;

 private:
  std::vector<Diagnostic> list_;
  std::size_t errors_ = 0;
};

/// Return "job.yaml:14:16: error: …", the line, and the caret, each with its line end.
std::string render(const Diagnostic& diagnostic);

/// Quote the user's text inside a message: in double quotes, shortened, without control characters.
std::string in_quotes(std::string_view text);

}  // namespace train::yaml
