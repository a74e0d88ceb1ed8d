// Reads a core file (core(5)) of x86-64: whose it is, and the stack of the thread that crashed, for
// the unwinder. The file may hold anything.
#pragma once

#include <optional>

#include "lib/stacks/process_capture.h"

namespace train {

struct CoreImage {
  pid_t pid = 0;
  /// With the thread that crashed. A file that has changed since the process began to die is left
  /// out of its mappings: its functions would have the wrong names.
  ProcessCapture process{};
};

/// Return what the file holds; nothing if it is no core file.
std::optional<CoreImage> read_core_image(int file);

}  // namespace train
