#include "daemon/core/failover_plan.h"

#include <algorithm>

namespace train {
namespace {

constexpr Duration kPauseMax = std::chrono::minutes(5);
constexpr int kDoublingsMax = 8;
constexpr int kTriesMax = 300;  // about a day

}  // namespace

FailoverPlan::Order FailoverPlan::prepare(const std::string& run_id, std::uint64_t generation,
                                          Duration wait) {
  runs_[run_id] = Run{.order = ++last_, .generation = generation, .wait = wait};
  return last_;
}

// An older launcher that comes back is refused, and changes nothing.
void FailoverPlan::attached(const std::string& run_id, std::uint64_t generation) {
  const auto found = runs_.find(run_id);
  if (found == runs_.end() || generation < found->second.generation) return;
  if (generation > found->second.generation) return cancel(run_id);
  found->second.start_at.reset();
  found->second.away = false;
  found->second.tries = 0;
}

void FailoverPlan::left(const std::string& run_id, TimePoint now) {
  const auto found = runs_.find(run_id);
  if (found == runs_.end()) return;
  found->second.away = true;
  found->second.start_at = now + pause_after(found->second);
}

void FailoverPlan::ended(const std::string& run_id, bool final, TimePoint now) {
  const auto obeyed = started_.extract(run_id);
  const auto found = runs_.find(run_id);
  if (obeyed.empty() || found == runs_.end() || found->second.order != obeyed.mapped()) return;
  Run& run = found->second;
  if (final || ++run.tries >= kTriesMax) return cancel(run_id);
  if (run.away) run.start_at = now + pause_after(run);
}

std::vector<std::string> FailoverPlan::due(TimePoint now) {
  std::vector<std::string> all;
  for (auto& [id, run] : runs_) {
    if (!run.start_at || now < *run.start_at || started_.contains(id)) continue;
    run.start_at.reset();
    started_[id] = run.order;
    all.push_back(id);
  }
  return all;
}

TimePoint FailoverPlan::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const auto& [id, run] : runs_)
    if (run.start_at && !started_.contains(id)) next = std::min(next, *run.start_at);
  return next;
}

std::optional<FailoverPlan::Order> FailoverPlan::order_of(const std::string& run_id) const {
  const auto found = runs_.find(run_id);
  return found == runs_.end() ? std::nullopt : std::optional(found->second.order);
}

// Twice as long after each try: the other nodes may not answer for hours.
Duration FailoverPlan::pause_after(const Run& run) {
  const Duration pause = run.wait * (1 << std::min(run.tries, kDoublingsMax));
  return std::max(run.wait, std::min(pause, kPauseMax));
}

}  // namespace train
