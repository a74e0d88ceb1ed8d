// Finds the frames of a captured stack. It goes on by call frame information, else by frame
// pointers (both libdwfl does), and where neither leads on, once, by a scan for a return address.
#pragma once

#include <string_view>
#include <vector>

#include "lib/stacks/process_capture.h"
#include "lib/stacks/unwind/dwfl_session.h"

namespace train {

struct WalkedStack {
  std::vector<RawFrame> frames{};  // innermost first
  bool complete = false;           // down to the thread's first function
};

WalkedStack walk_stack(const ThreadCapture& thread, DwflSession& session);

/// Return whether the bytes in front of a return address end with a call instruction of x86-64.
bool ends_with_call(std::string_view code);

}  // namespace train
