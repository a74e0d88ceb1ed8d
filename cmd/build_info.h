// The version that both programs print and send in their hello.
#pragma once

#include <string>

namespace train {

inline constexpr const char* kBuild = TRAIN_BUILD;  // the version, "+g" and the commit

inline std::string version_text(const char* program) { return std::string(program) + " " + kBuild; }

}  // namespace train
