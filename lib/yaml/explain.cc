#include "lib/yaml/explain.h"

#include <algorithm>
#include <array>

namespace train::yaml {
namespace {

struct Explanation {
  std::string_view theirs;
  std::string_view ours;
  std::string_view hint;
};

constexpr std::array kExplanations{
    Explanation{"illegal map value", "a ':' that cannot stand here",
                "check the indentation, or quote text that holds ': '"},
    Explanation{kUnclosedList, "this list is not closed", "add the missing ']'"},
    Explanation{kUnclosedMap, "this mapping is not closed", "add the missing '}'"},
    Explanation{"end of map not found", "this line does not fit the mapping above it",
                "indent it like the keys above"},
    Explanation{"end of sequence not found", "this line does not fit the list above it",
                "indent it like the items above"},
    Explanation{"the referenced anchor is not defined",
                "this alias names an anchor that is not defined above it",
                "define it with & first"},
    Explanation{"unknown token", "a character that cannot begin a value",
                "put the value in quotes"},
    Explanation{"illegal block entry", "a list item that cannot stand here",
                "begin the list on a line of its own"},
    Explanation{"illegal flow end", "a closing bracket without an opening one", "remove it"},
};

}  // namespace

Diagnostic explain(const Position& at, const std::string& message) {
  // Check the line's indentation first, where a tab looks right but is wrong.
  std::string_view line = at.source->text;
  for (int i = 1; i < at.line && !line.empty(); ++i) {
    line.remove_prefix(std::min(line.size(), std::min(line.find('\n'), line.size() - 1) + 1));
  }
  const std::size_t indent_end = std::min(line.find_first_not_of(" \t"), line.size());
  if (const std::size_t tab = line.substr(0, indent_end).find('\t');
      tab != std::string_view::npos) {
    return {Severity::Error,
            {at.source, at.line, static_cast<int>(tab) + 1},
            "a tab in the indentation",
            "use spaces"};
  }
  for (const Explanation& e : kExplanations) {
    if (message == e.theirs) return {Severity::Error, at, std::string(e.ours), std::string(e.hint)};
  }
  return {Severity::Error, at, "not YAML: " + message, "nothing after this place was checked"};
}

}  // namespace train::yaml
