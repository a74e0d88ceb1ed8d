#include "sdk/client/progress.h"

#include <time.h>
#include <train/progress.h>

#include <algorithm>
#include <atomic>

#include "lib/progress/progress_memory.h"

namespace train {
namespace sdk {
namespace {

std::uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// The page of a process without a supervisor, and of a fork's child.
ProgressPage& private_page() {
  static ProgressPage page;
  return page;
}

ProgressWriter& writer() {
  static ProgressWriter writer(private_page(), now_ns());
  return writer;
}

/// Return whether this thread is the loop's: the first one that asks.
bool on_loop_thread() {
  static std::atomic<bool> taken = false;
  thread_local const bool first = !taken.exchange(true);
  return first;
}

}  // namespace

InPhase::InPhase(Phase phase, std::string_view name, std::chrono::nanoseconds limit) {
  if (!on_loop_thread()) return;
  const auto limit_ns = static_cast<std::uint64_t>(std::max<std::int64_t>(limit.count(), 0));
  outer_ = writer().enter(phase, name, limit_ns, now_ns());
}

InPhase::~InPhase() {
  if (outer_) writer().leave(*outer_, now_ns());
}

void set_base_phase(Phase phase) {
  if (on_loop_thread()) writer().set_base(phase, now_ns());
}

void say_in_phase(std::string_view text) {
  if (on_loop_thread()) writer().say(text, now_ns());
}

void end_step(StepSource source) {
  if (on_loop_thread()) writer().end_step(source, now_ns());
}

void count_checkpoint() {
  if (on_loop_thread()) writer().count_checkpoint();
}

InGradientSync::InGradientSync()
    : outer_(writer().enter(Phase::Collective, "gradients", 0, now_ns())) {}

InGradientSync::~InGradientSync() { writer().leave(outer_, now_ns()); }

void end_step_of_backward() { writer().end_step(StepSource::Backward, now_ns()); }

void share_progress(FileDescriptor fd) {
  on_loop_thread();
  if (fd.get() < 0) return;
  auto memory = ProgressMemory::map(std::move(fd));
  if (!memory) return;  // the supervisor then knows as much as of a program without the SDK
  // Never unmapped: the loop may mark until the process ends.
  static const ProgressMemory& kept = *new ProgressMemory(std::move(*memory));
  writer().move_to(kept.page());
}

void abandon_progress_in_fork_child() { writer().move_to(private_page()); }

}  // namespace sdk

struct PhaseScope::Impl {
  sdk::InPhase inside;
};

PhaseScope::PhaseScope(std::string_view name, const PhaseOptions& options)
    : impl_(new Impl{sdk::InPhase(Phase::Own, name, options.limit)}) {}
PhaseScope::~PhaseScope() = default;
void PhaseScope::say(std::string_view text) const { sdk::say_in_phase(text); }

PhaseScope phase(std::string_view name, const PhaseOptions& options) { return {name, options}; }

void step() { sdk::end_step(StepSource::Program); }

}  // namespace train
