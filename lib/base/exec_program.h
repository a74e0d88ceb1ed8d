// Becomes another program.
#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"

namespace train {

/// Replace this process by a program, with its arguments; it is looked for in PATH. Return why that
/// is not possible.
Error exec_program(const std::vector<std::string>& words);

}  // namespace train
