// Runs a program to its end, and keeps what it writes, within bounds. The program may be anybody's.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

struct ProgramOrder {
  std::vector<std::string> words{};  // the program's path, and its arguments
  std::size_t bytes_max = 0;         // of its output: what writes more is killed
  bool to_third = false;             // its output is what it writes to kThirdFile
};
/// A file of the program that leads to us, for those that write results to files.
inline constexpr const char* kThirdFile = "/proc/self/fd/3";

struct ProgramOutput {
  std::string text{};
  std::string errors{};   // the begin of its standard error
  std::string trouble{};  // "ended with 1"; empty: it ended well
};

/// Run a program until it ends, or kill it at the deadline, with what it has started. Blocks; a
/// path on storage that does not answer may hold the thread longer.
Result<ProgramOutput> run_program(const ProgramOrder& order, TimePoint deadline);

inline constexpr std::size_t kProgramErrorsBytesMax = 4096;

}  // namespace train
