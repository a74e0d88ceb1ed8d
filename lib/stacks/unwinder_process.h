// Runs trainrun-unwind over a file of captures.
#pragma once

#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

struct UnwinderOutput {
  std::string messages{};  // each complete as soon as it was written, so also those before a crash
  std::string trouble{};   // why there may be too few of them; empty: it ended well
};

/// Make a file in memory, which no path leads to.
Result<FileDescriptor> memory_file(const char* name);
Result<Unit> append_to(const FileDescriptor& file, std::string_view bytes);

/// Run the program with `captures` as its standard input until it ends, or kill it at `deadline`.
Result<UnwinderOutput> run_unwinder(const std::string& program, const FileDescriptor& captures,
                                    TimePoint deadline);

}  // namespace train
