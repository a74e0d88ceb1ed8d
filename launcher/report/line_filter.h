// Finds the lines that match a regular expression of the user, who may be careless, among lines of
// a program that may be hostile. RE2 needs time that is linear in the line, and bounded memory,
// whatever the expression is; std::regex and PCRE backtrack, and can take years. Pure.
#pragma once

#include <memory>
#include <string_view>

#include "lib/base/result.h"

namespace re2 {
class RE2;
}

namespace train {

class LineFilter {
 public:
  /// InvalidArgument says what is wrong with the expression (RE2's syntax, as Go's and `grep
  /// -E`'s).
  static Result<LineFilter> parse(std::string_view expression);
  LineFilter(LineFilter&&) noexcept;
  LineFilter& operator=(LineFilter&&) noexcept;
  ~LineFilter();

  bool matches(std::string_view line) const;

 private:
  explicit LineFilter(std::unique_ptr<re2::RE2> expression);
  std::unique_ptr<re2::RE2> expression_;
};

}  // namespace train
