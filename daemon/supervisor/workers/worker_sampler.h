// Looks at the workers of a supervisor: at the pages in which they mark their progress, and at what
// the kernel counts of their processes. Main thread only.
#pragma once

#include <map>
#include <vector>

#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// Ranks in one message: with 300 bytes of each, far below the frame's limit.
inline constexpr std::size_t kRanksPerSampleMax = 1000;

/// Operators of datasets in one message: with 150 bytes of each, far below the frame's limit.
inline constexpr std::size_t kOperatorsPerSampleMax = 4096;
/// If an attempt has more ranks, their datasets are told each 10 s only.
inline constexpr int kDataEachSecondMax = 512;
inline constexpr int kDataRarelySeconds = 10;

/// What was known of a worker when its newest sign of life was seen first.
struct SignOfLife {
  std::uint64_t signs = 0;
  std::int64_t cpu_wait_us = 0;
};

/// Subtract from the silence in `sample` what its process has waited for a CPU since `newest`: a
/// loop that had no CPU is not to blame. Replace `newest` if the sample shows another sign.
void subtract_cpu_wait(RankSample& sample, SignOfLife& newest);

class WorkerSampler {
 public:
  explicit WorkerSampler(const std::map<Rank, WorkerSlot>& slots) : slots_(slots) {}
  /// Return messages with a sample of each worker that lives.
  std::vector<WorkerSamples> take();
  /// Return messages with what the datasets of the workers do; none of those that read none. Call
  /// this once a second.
  std::vector<DataSamples> take_data();

 private:
  RankSample sample(const WorkerSlot& slot, std::uint64_t now);

  const std::map<Rank, WorkerSlot>& slots_;
  std::map<std::int32_t, SignOfLife> signs_;  // by rank
  int seconds_ = 0;                           // since take_data() has looked
};

}  // namespace train
