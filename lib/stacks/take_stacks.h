// Takes the stacks of live processes: captures them, and has trainrun-unwind make stacks of the
// captures. That program reads files which others have written, so it has its own address space,
// limits and end; whatever becomes of it, the facts about the threads remain. Where py-spy is
// installed, Python processes have Python's frames, too (python_frames.h).
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/stacks/process_stacks.h"
#include "lib/stacks/thread_capture.h"

namespace train {

inline constexpr std::size_t kStackProcessesMax = 1024;
inline constexpr std::size_t kCapturesBytesMax = 512u << 20;  // of all processes

struct TakeStacksOptions {
  std::string unwinder{};  // the program; empty: find_unwinder()
  CaptureLimits limits{};
};

/// Take the stacks of processes until `deadline`, in the order of `pids`. Blocks: call it on a
/// thread of its own. A process that cannot be captured, or whose stacks cannot be unwound, has
/// notes that say why. An error means that there is nothing to show for any of them.
Result<std::vector<ProcessStacks>> take_stacks(const std::vector<pid_t>& pids, TimePoint deadline,
                                               const TakeStacksOptions& options = {});

/// Make stacks of captures, such as what dead processes have left, until `deadline`, in the order
/// of `captures`. Blocks. Captures that have no stack have notes that say why.
std::vector<ProcessStacks> unwind_captures(const std::vector<ProcessCapture>& captures,
                                           TimePoint deadline, const std::string& unwinder = {});

/// Return the path of trainrun-unwind; "" if there is none (lib/base/helper_program.h).
std::string find_unwinder();

/// Return what we know of a process without its frames.
ProcessStacks stacks_without_frames(const ProcessCapture& capture);

}  // namespace train
