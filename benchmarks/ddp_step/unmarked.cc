// In place of sdk/client/progress.cc: marks of progress that do nothing. Linked into
// ddp_step_unmarked, to show what the real ones cost.
#include "sdk/client/progress.h"

namespace train::sdk {

InPhase::InPhase(Phase, std::string_view, std::chrono::nanoseconds) {}
InPhase::~InPhase() {}
void set_base_phase(Phase) {}
void say_in_phase(std::string_view) {}
void end_step(StepSource, std::uint64_t) {}
void end_step(StepSource) {}
void hand_over_checkpoint(std::uint64_t) {}
InGradientSync::InGradientSync() = default;
InGradientSync::~InGradientSync() {}
void share_progress(FileDescriptor) {}
void abandon_progress_in_fork_child() {}

}  // namespace train::sdk
