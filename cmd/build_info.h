// The version that both programs print and send in their hello.
#pragma once

#include <string>

namespace train {

extern const char* const kBuild;  // the version, "+g" and the commit

inline std::string version_text(const char* program) { return std::string(program) + " " + kBuild; }

}  // namespace train
