// What yaml-cpp finds wrong with a text, in our words.
#pragma once

#include <string>
#include <string_view>

#include "lib/yaml/diagnostics.h"

namespace train::yaml {

inline constexpr std::string_view kUnclosedList = "end of sequence flow not found";
inline constexpr std::string_view kUnclosedMap = "end of map flow not found";

/// `message`: an exception's of yaml-cpp, thrown at `at`.
Diagnostic explain(const Position& at, const std::string& message);

}  // namespace train::yaml
