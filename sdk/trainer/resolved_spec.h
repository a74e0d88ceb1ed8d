// What train-run makes of a spec, before it runs it (--print-config).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace train::trainer {

/// Return the complete spec, in YAML, of `words`: train-run, "run", and the job. Throws SpecError
/// with all mistakes, and ControllerError if train-run cannot be started.
std::string resolved_spec(std::vector<std::string> words);

/// A value of the spec, as text.
struct SpecValue {
  std::string text;
  bool given = false;  // by somebody, so that it is no default

  bool operator==(const SpecValue&) const = default;
};
/// Return a value of resolved_spec(), at its top (section ""), or in a section there.
SpecValue value_of(std::string_view spec, std::string_view section, std::string_view key);

/// Write a text so that train-run takes no part of it for a variable.
std::string escaped(std::string text);
std::string unescaped(std::string text);

}  // namespace train::trainer
