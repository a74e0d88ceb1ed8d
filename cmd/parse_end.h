// Prints what CLI11 reports about a command line (help, version, mistakes).
#pragma once

#include <CLI/CLI.hpp>
#include <sstream>

#include "lib/base/print.h"

namespace train {

/// Print it, and return the exit code: `usage` for a mistake.
inline int end_of_parse(const CLI::App& app, const CLI::ParseError& error, int usage) {
  std::ostringstream out, err;
  const bool asked = app.exit(error, out, err) == 0;
  print_out("{}", Lines{out.str()});
  print_err("{}", Lines{err.str()});
  return finish_output(asked ? 0 : usage);
}

}  // namespace train
