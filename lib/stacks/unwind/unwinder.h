// Makes stacks with names of captured processes. Reads files that others have written with libdw
// and libelf, so it belongs into a process of its own: cmd/trainrun-unwind.
#pragma once

#include "lib/stacks/process_capture.h"
#include "lib/stacks/process_stacks.h"
#include "lib/stacks/unwind/code_modules.h"
#include "lib/stacks/unwind/frame_names.h"

namespace train {

class Unwinder {
 public:
  explicit Unwinder(OpenMappedFile open = open_mapped_file)
      : open_(std::move(open)), names_(open_) {}
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  ProcessStacks unwind(const ProcessCapture& capture);

 private:
  std::vector<StackFrame> frames_at(const std::vector<std::uint64_t>& addresses,
                                    DwflSession& session, const ProcessCapture& capture);
  std::vector<StackFrame> frames_of(const ThreadCapture& thread, DwflSession& session,
                                    const ProcessCapture& capture, ThreadFacts& facts);

  OpenMappedFile open_;
  FrameNames names_;
};

}  // namespace train
