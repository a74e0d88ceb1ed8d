// Makes a stack of what a worker has left of its crash (lib/progress/crash_record.h). The worker is
// dead: nothing is stopped, and its files are found by their paths.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/progress/crash_record.h"
#include "lib/stacks/process_capture.h"

namespace train {

struct CrashStack {
  std::string place;   // "Model::forward (model.cc:41) <- main (main.cc:88)"; "": unknown
  std::string frames;  // a line each
  std::string core;    // what find_core_dump() found
};

/// Return what the record holds of a death by `signal`, or nothing. The record may hold anything,
/// and change meanwhile.
std::optional<ProcessCapture> crash_capture(const CrashRecord& shared, int signal);

/// Make a stack of each capture until `deadline`. Blocks.
std::vector<CrashStack> crash_stacks(const std::vector<ProcessCapture>& captures,
                                     TimePoint deadline);

}  // namespace train
