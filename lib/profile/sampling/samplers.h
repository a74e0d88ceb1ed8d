// The two ways to sample the threads of a rank. Each runs on a thread of its own until its time is
// over, or nothing of the rank is left, and then closes the queue.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/profile/profile.h"
#include "lib/profile/sampling/perf_event.h"
#include "lib/profile/sampling/profiled_processes.h"
#include "lib/profile/sampling/sample_queue.h"

namespace train {

struct SamplingOrder {
  ProfileKind kind = ProfileKind::Cpu;
  Duration time{0};
  ListProcesses processes{};  // any thread may call it
  PerfOpen perf_open = open_perf_event;
};

/// What a sampler shares with whoever waits for it, who may give up before it ends.
struct Sampling {
  SampleQueue queue{};

  void finish(ProfileFacts found) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      facts = std::move(found);
    }
    queue.close();
  }
  ProfileFacts found() {
    const std::lock_guard<std::mutex> lock(mutex);
    return facts;
  }

 private:
  std::mutex mutex{};
  ProfileFacts facts{};
};

/// Begin to sample what runs on a processor, by perf events. Permission: the kernel refuses them.
Result<Unit> begin_perf_sampling(const SamplingOrder& order, const std::shared_ptr<Sampling>& to);

inline constexpr Duration kPtraceCpuPeriod = milliseconds{20};
inline constexpr Duration kPtraceWallPeriod = milliseconds{50};

/// Begin to sample by stops of a moment: threads that have run meanwhile (`cpu`), or all (`wall`);
/// one that has not run since its last sample is counted with that, and not stopped.
Result<Unit> begin_ptrace_sampling(const SamplingOrder& order, const std::shared_ptr<Sampling>& to);

}  // namespace train
