#include "daemon/supervisor/workers/worker_sampler.h"

#include <algorithm>

#include "daemon/supervisor/processes/process_sampler.h"
#include "lib/progress/data_reader.h"
#include "lib/progress/progress_clock.h"
#include "lib/progress/progress_reader.h"

namespace train {

void subtract_cpu_wait(RankSample& sample, SignOfLife& newest) {
  if (newest.signs != sample.progress.signs)
    newest = {sample.progress.signs, sample.process.cpu_wait_us};
  // Less than before: this is another process.
  const std::int64_t waited =
      std::max<std::int64_t>(0, sample.process.cpu_wait_us - newest.cpu_wait_us);
  sample.progress.quiet_us = std::max<std::int64_t>(0, sample.progress.quiet_us - waited);
}

RankSample WorkerSampler::sample(const WorkerSlot& slot, std::uint64_t now) {
  RankSample sample{.rank = Rank{slot.ranks.rank}};
  sample.process = sample_processes(static_cast<pid_t>(slot.pid), slot.program);
  sample.process.memory_limit = slot.memory.limit();
  // The page of a program that has ended says nothing about the one that runs now.
  const bool lives = slot.connected || sample.process.pid == slot.program;
  if (slot.progress && lives) sample.progress = read_progress(slot.progress->page(), now);
  subtract_cpu_wait(sample, signs_[slot.ranks.rank]);
  return sample;
}

std::vector<WorkerSamples> WorkerSampler::take() {
  std::vector<WorkerSamples> messages;
  const std::uint64_t now = progress_now();
  for (const auto& [rank, slot] : slots_) {
    if (slot.pid <= 0) continue;
    if (messages.empty() || messages.back().ranks.size() == kRanksPerSampleMax)
      messages.push_back({.taken_us = static_cast<std::int64_t>(now / 1000)});
    messages.back().ranks.push_back(sample(slot, now));
  }
  return messages;
}

std::vector<DataSamples> WorkerSampler::take_data() {
  const bool rarely =
      !slots_.empty() && slots_.begin()->second.ranks.world_size > kDataEachSecondMax;
  if (rarely && ++seconds_ % kDataRarelySeconds != 0) return {};
  std::vector<DataSamples> messages;
  const std::uint64_t now = progress_now();
  std::size_t operators = 0;  // in the last message
  for (const auto& [rank, slot] : slots_) {
    if (slot.pid <= 0 || !slot.progress || !slot.connected) continue;
    RankData data{.rank = rank, .operators = read_data(slot.progress->data(), now)};
    if (data.operators.empty()) continue;
    if (messages.empty() || operators + data.operators.size() > kOperatorsPerSampleMax) {
      messages.push_back({.taken_us = static_cast<std::int64_t>(now / 1000)});
      operators = 0;
    }
    operators += data.operators.size();
    messages.back().ranks.push_back(std::move(data));
  }
  return messages;
}

}  // namespace train
