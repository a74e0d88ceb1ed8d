// The version that both programs print and say at hello.
#pragma once

#include <string>

namespace train {

inline constexpr const char* kBuild = TRAIN_BUILD;  // "0.1.0+g1a2b3c4": version and commit

inline std::string version_text(const char* program) { return std::string(program) + " " + kBuild; }

}  // namespace train
