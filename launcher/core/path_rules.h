// Patterns of paths in the syntax of .gitignore (git-scm.com/docs/gitignore, "Pattern format"). Of
// several patterns that match a path, the last one decides. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace train {

class PathRules {
 public:
  /// Add the patterns of a file, one a line; empty lines and those that begin with '#' are none.
  void add_lines(std::string_view text);
  /// Add one pattern, as a line of such a file would; a comment adds none.
  void add(std::string_view pattern);

  /// Return true if the last pattern that matches the path is a plain one, false if it begins with
  /// '!', and nothing if none matches. `path` is relative to the folder whose rules these are.
  std::optional<bool> matches(std::string_view path, bool is_folder) const;
  bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    std::vector<std::string> parts;  // between the slashes
    bool negated = false, folders_only = false;
    bool anchored = false;  // else it matches the last part of a path, however deep
  };
  std::vector<Rule> rules_;
};

}  // namespace train
