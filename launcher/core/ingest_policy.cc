#include "launcher/core/ingest_policy.h"

#include <algorithm>

namespace train {
namespace {

// Another one takes seconds to start, and the fewer there are, the more asks change their owner
// when one goes: so growth needs seconds, shrinking a minute.
constexpr double kWaitsToGrow = 0.05, kBusyToGrow = 0.8;
constexpr Duration kGrowAfter = seconds(10);
constexpr double kWaitsToShrink = 0.01, kBusyToShrink = 0.5;
constexpr Duration kShrinkAfter = seconds(60);
constexpr Duration kFresh = seconds(30);  // large attempts are sampled each 10 s

template <class Counters>
std::optional<double> mean_of(const Counters& counters, TimePoint now) {
  double sum = 0;
  int known = 0;
  for (const auto& [key, counter] : counters) {
    if (!counter.known || now - counter.sampled > kFresh) continue;
    sum += counter.share;
    ++known;
  }
  return known == 0 ? std::nullopt : std::optional(sum / known);
}

/// Note since when a condition holds. Return whether it has held for `long_enough`.
bool held_for(bool holds, std::optional<TimePoint>& since, Duration long_enough, TimePoint now) {
  if (!holds) since.reset();
  if (holds && !since) since = now;
  return since && now - *since >= long_enough;
}

}  // namespace

void IngestPolicy::Counter::sample(Duration value_now, Duration at_now, TimePoint now) {
  const Duration passed = at_now - at, more = value_now - value;
  const bool first = sampled == TimePoint{};
  if (!first && passed <= Duration{0}) return;  // an old one, or the clock of another node
  known = !first && more >= Duration{0};        // the rank may have opened it anew
  if (known) share = std::chrono::duration<double>(more) / std::chrono::duration<double>(passed);
  value = value_now;
  at = at_now;
  sampled = now;
}

void IngestPolicy::rank_waited(Rank rank, Duration waited, Duration taken, TimePoint now) {
  Counter& counter = waited_[rank];
  counter.sample(waited, taken, now);
  counter.share = std::clamp(counter.share, 0.0, 1.0);
}

void IngestPolicy::worker_used(const std::string& name, Duration cpu, TimePoint now) {
  Counter& counter = used_[name];
  counter.sample(cpu, now.time_since_epoch(), now);
}

void IngestPolicy::changed(int count) {
  count_ = count;
  short_since_.reset();
  idle_since_.reset();
}

std::optional<double> IngestPolicy::waiting(TimePoint now) const { return mean_of(waited_, now); }

// One without a claim has used a CPU if it has used one.
std::optional<double> IngestPolicy::busy(TimePoint now) const {
  const double cpus = spec_.resources_per_worker.cpu > 0 ? spec_.resources_per_worker.cpu : 1;
  auto used = mean_of(used_, now);
  if (used) *used /= cpus;
  return used;
}

int IngestPolicy::advance(TimePoint now) {
  const auto waits = waiting(now), works = busy(now);
  const bool known = waits && works;
  const bool grows = held_for(known && *waits > kWaitsToGrow && *works > kBusyToGrow, short_since_,
                              kGrowAfter, now);
  const bool shrinks = held_for(known && *waits < kWaitsToShrink && *works < kBusyToShrink,
                                idle_since_, kShrinkAfter, now);
  const int least = std::min(spec_.workers.min, most_);
  int wanted = count_;
  if (grows && count_ < most_) ++wanted;
  if (shrinks && count_ > least) --wanted;
  if (wanted != count_) changed(wanted);
  return count_;
}

}  // namespace train
