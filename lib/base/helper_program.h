// Finds the programs that ours start, and that are not for users.
#pragma once

#include <string>

namespace train {

/// Return the path of a helper program: in ../libexec/trainrun from this program's folder (where it
/// is installed), or beside this program, or in ../bin (both in a build). "" if there is none.
std::string find_helper_program(const std::string& name);

}  // namespace train
