// This file explains in our words what yaml-cpp finds wrong with a text.
#pragma once

#include <string>
#include <string_view>

#include "lib/yaml/diagnostics.h"

namespace train::yaml {

inline constexpr std::string_view kUnclosedList = "end of sequence flow not found";
inline constexpr std::string_view kUnclosedMap = "end of map flow not found";

/// Explain `message`, the text of an exception that yaml-cpp threw at `at`.
Diagnostic explain(const Position& at, const std::string& message);

}  // namespace train::yaml
