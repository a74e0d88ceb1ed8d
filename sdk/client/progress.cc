#include "sdk/client/progress.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "lib/progress/progress_clock.h"
#include "lib/progress/progress_memory.h"
#include "sdk/client/crash_record.h"

namespace train::sdk {
namespace {

// The page of a process without a supervisor, and of a fork's child.
ProgressPage& private_page() {
  static ProgressPage page;
  return page;
}

ProgressWriter& writer() {
  static ProgressWriter writer(private_page(), progress_now());
  return writer;
}

std::atomic<DataPage*>& shared_data() {
  static std::atomic<DataPage*> shared = nullptr;
  return shared;
}

/// Held for each mark: some are made by other threads than the loop's.
class Marking {
 public:
  Marking() {
    while (held_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  ~Marking() { let_go(); }
  static void let_go() { held_.clear(std::memory_order_release); }
  Marking(const Marking&) = delete;
  Marking& operator=(const Marking&) = delete;

 private:
  static inline std::atomic_flag held_;
};

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
  const Marking marking;
  outer_ = writer().enter(phase, name, limit_ns, progress_now());
}

InPhase::~InPhase() {
  if (!outer_) return;
  const Marking marking;
  writer().leave(*outer_, progress_now());
}

void set_base_phase(Phase phase) {
  if (!on_loop_thread()) return;
  const Marking marking;
  writer().set_base(phase, progress_now());
}

std::uint64_t time_in(Phase phase) {
  const Marking marking;
  return writer().time_in(phase);
}

void say_in_phase(std::string_view text) {
  if (!on_loop_thread()) return;
  const Marking marking;
  writer().say(text, progress_now());
}

void end_step(StepSource source, std::uint64_t now) {
  const Marking marking;
  writer().end_step(source, now);
}

void end_step(StepSource source) { end_step(source, progress_now()); }

void hand_over_checkpoint(std::uint64_t checkpoint_seq) {
  const Marking marking;
  writer().hand_over(checkpoint_seq, progress_now());
}

InGradientSync::InGradientSync() {
  const Marking marking;
  outer_ = writer().enter(Phase::Collective, "gradients", 0, progress_now());
}

InGradientSync::~InGradientSync() {
  const Marking marking;
  writer().leave(outer_, progress_now());
}

DataPage& data_page() {
  static DataPage& own = *new DataPage;  // user threads may count until the process ends
  DataPage* const shared = shared_data().load();
  return shared != nullptr ? *shared : own;
}

void share_progress(FileDescriptor fd) {
  if (fd.get() < 0) return;
  auto memory = ProgressMemory::map(std::move(fd));
  if (!memory) return;  // the supervisor then knows as much as of a program without the SDK
  // Never unmapped: the loop may mark until the process ends.
  const ProgressMemory& kept = *new ProgressMemory(std::move(*memory));
  static bool first = true;
  const Marking marking;
  if (std::exchange(first, false))
    writer().move_to(kept.page());
  else  // of the process's next run, which has done nothing yet
    writer() = ProgressWriter(kept.page(), progress_now());
  record_crashes_in(&kept.crash());
  shared_data().store(&kept.data());
}

void abandon_progress_in_fork_child() {
  Marking::let_go();  // another thread of the parent may have held it
  writer().move_to(private_page());
  shared_data().store(nullptr);
}

}  // namespace train::sdk
