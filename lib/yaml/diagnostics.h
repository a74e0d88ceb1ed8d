// Mistakes in a text that a person wrote: collected over a whole pass, then shown together, each
// with its place, the source line, and a caret that says what to do. Knows nothing of YAML.
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

/// 1-based; columns count bytes here and characters where they are shown. No source: a value that
/// nobody wrote.
struct Position {
  const Source* source = nullptr;
  int line = 1;
  int column = 1;
  int shown_line() const { return source == nullptr ? 0 : line + source->first_line - 1; }
  /// "job.yaml:14", or "--set".
  std::string file_and_line() const;
  /// The same for a reader who looks at `here`: "line 14" when that is in the same text.
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
  /// Far more than are shown: whoever could report another one for each pair of values stops.
  bool has_enough() const { return errors_ > 10 * kErrorsShownMax; }

  /// All errors in the order of their places, ready to print; at most kErrorsShownMax, then how
  /// many more.
  std::string error_text() const;
  std::vector<std::string> warnings() const;

  static constexpr std::size_t kErrorsShownMax = 100;

 private:
  std::vector<Diagnostic> list_;
  std::size_t errors_ = 0;
};

/// "job.yaml:14:16: error: …", the line, and the caret, each with its line end.
std::string render(const Diagnostic& diagnostic);

/// Text of the user inside a message: in double quotes, shortened, without control characters.
std::string in_quotes(std::string_view text);

}  // namespace train::yaml
