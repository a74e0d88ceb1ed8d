// This file collects the mistakes in a text that a person wrote. A whole pass collects them; then
// they are shown together, each with its place, the source line, and a caret with advice. Nothing
// here is specific to YAML.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace train::yaml {

/// A text that positions refer to. `name` is what the user sees: a path, or "--set".
struct Source {
  std::string name;
  std::string text;
  int first_line = 1;  // the number of the text's first line: overrides are lines of a single text
  int order = 0;       // diagnostics are sorted by this
};

/// A place in a source, 1-based. Columns count bytes here, but characters when shown. A null source
/// stands for a value that nobody wrote.
struct Position {
  const Source* source = nullptr;
  int line = 1;
  int column = 1;
  int shown_line() const { return source == nullptr ? 0 : line + source->first_line - 1; }
  /// Return "job.yaml:14", or "--set".
  std::string file_and_line() const;
  /// Return the same for a reader who is looking at `here`: "line 14" if both are in the same text.
  std::string seen_from(const Position& here) const;
  bool operator==(const Position&) const = default;
};

enum class Severity { Error, Warning };

struct Diagnostic {
  Severity severity = Severity::Error;
  Position at;
  std::string message;  // lower case, no final full stop; the value found and the value needed
  std::string hint;     // beside the caret; may be empty
};

/// Not thread-safe; lives as long as one parse.
class Diagnostics {
 public:
  void error(const Position& at, std::string message, std::string hint = {});
  void warning(const Position& at, std::string message, std::string hint = {});
  bool has_errors() const { return errors_ > 0; }
  /// Return whether there are far more errors than will be shown, so that a caller that may report
  /// one for each pair of values can stop.
  bool has_enough() const { return errors_ > 10 * kShownMax; }

  /// Return the errors in the order of their places, ready to print: at most kShownMax, then
  /// the number of errors left out.
  std::string error_text() const;
  /// Return the warnings, ready to print: at most kShownMax, then the number of those left out.
  std::vector<std::string> warnings() const;

  static constexpr std::size_t kShownMax = 100;

 private:
  std::vector<Diagnostic> list_;
  std::size_t errors_ = 0;
};

/// Return "job.yaml:14:16: error: …", the line, and the caret, each with its line end. Redacts the
/// secrets that are known by now.
std::string render(const Diagnostic& diagnostic);

/// Quote the user's text inside a message: in double quotes, shortened, without control characters.
std::string in_quotes(std::string_view text);

}  // namespace train::yaml
