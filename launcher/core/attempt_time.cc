#include "launcher/core/attempt_time.h"

#include <algorithm>
#include <utility>

namespace train {
namespace {

using std::chrono::microseconds;

/// A node is silent if it has sent no sample for this long; they come each second.
constexpr Duration kSilentAfter = seconds(5);

TimeUse use_of(Phase phase) {
  switch (phase) {
    case Phase::None:
      return TimeUse::Unknown;
    case Phase::Start:
      return TimeUse::Start;
    case Phase::Restore:
      return TimeUse::Restore;
    case Phase::Data:
      return TimeUse::Data;
    case Phase::Step:
      return TimeUse::Step;
    case Phase::Collective:
      return TimeUse::Collective;
    case Phase::Checkpoint:
    case Phase::Wait:
      return TimeUse::Checkpoint;
    case Phase::Report:
      return TimeUse::Report;
    case Phase::Validate:
      return TimeUse::Validate;
    case Phase::Stop:
    case Phase::Own:
    case Phase::Once:
      return TimeUse::Other;
  }
  return TimeUse::Other;
}

std::size_t index(Phase phase) { return static_cast<std::size_t>(phase); }

/// Fills a place's time up, part by part.
class Filling {
 public:
  explicit Filling(Duration whole) : left_(std::max(whole, Duration{})) {}
  void add(TimeUse use, Duration time) {
    const Duration part = std::clamp(time, Duration{}, left_);
    accounts_[use] += part;
    left_ -= part;
  }
  void rest(TimeUse use) { add(use, left_); }
  Duration left() const { return left_; }
  TimeAccounts& accounts() { return accounts_; }

 private:
  Duration left_;
  TimeAccounts accounts_;
};

}  // namespace

AttemptTime::AttemptTime(int world_size, TimePoint began)
    : began_(began), places_(static_cast<std::size_t>(world_size)) {}

AttemptTime::AttemptTime(int world_size, TimePoint began, std::optional<NotedTime> noted)
    : AttemptTime(world_size, began) {
  adopted_ = true;
  noted_ = noted;
}

void AttemptTime::started(Rank rank, TimePoint now) {
  Place& place = places_.at(static_cast<std::size_t>(rank.value));
  if (!place.started_at) place.started_at = now;
}

void AttemptTime::take(Place& place, const WorkerProgress& progress) {
  if (progress.phase == Phase::None) return;
  if (progress.signs < place.signs) place.earlier = place.closed;  // another program
  place.signs = progress.signs;
  const std::size_t known = std::min(progress.intervals.size(), place.closed.size());
  for (std::size_t i = 0; i < known; ++i)
    place.closed[i] = place.earlier[i] + microseconds(progress.intervals[i].total_us);
  place.open = progress.phase;
  place.open_for = microseconds(progress.quiet_us);
  place.handed_over = progress.handed_over;
  resolve(place);
}

/// Find out how much of the rank's steps is in the newest committed checkpoint, if the rank's
/// progress says so already.
void AttemptTime::resolve(Place& place) const {
  for (const HandedOverCheckpoint& one : place.handed_over) {
    if (one.checkpoint_seq == committed_ && committed_ != 0)
      place.kept = place.earlier[index(Phase::Step)] + microseconds(one.step_us);
  }
}

void AttemptTime::sampled(Rank rank, const WorkerProgress& progress, TimePoint now) {
  Place& place = places_.at(static_cast<std::size_t>(rank.value));
  if (place.ended_at) return;
  take(place, progress);
  place.seen_at = now;
}

void AttemptTime::paused(Rank rank) {
  Place& place = places_.at(static_cast<std::size_t>(rank.value));
  if (place.report_before_pause) return;
  place.report_before_pause = place.closed[index(Phase::Report)];
}

void AttemptTime::ended(Rank rank, const WorkerProgress& progress, Duration ago, TimePoint now) {
  Place& place = places_.at(static_cast<std::size_t>(rank.value));
  if (place.ended_at) return;
  take(place, progress);
  place.ended_at = place.seen_at = now - std::max(ago, Duration{});
}

void AttemptTime::committed(std::uint64_t checkpoint_seq) {
  committed_ = std::max(committed_, checkpoint_seq);
  for (Place& place : places_) resolve(place);
}

TimeAccounts AttemptTime::accounts_of(const Place& place, End end, TimePoint now) const {
  const bool bad = end == End::Bad || end == End::Hung;
  const TimeUse after_end = bad                ? TimeUse::Down
                            : place.ended_at   ? TimeUse::Other
                            : end == End::None ? TimeUse::Unknown
                                               : TimeUse::Other;
  Filling filling(now - began_);
  const bool seen = place.seen_at != TimePoint{};
  const Duration unseen = seen ? now - place.seen_at : Duration{};
  const bool silent = !place.ended_at && unseen > kSilentAfter;
  // Until the next sample, a living rank goes on with what it did.
  const bool goes_on = seen && !place.ended_at && !silent && place.open != Phase::None;
  if (seen && (place.ended_at || silent)) filling.add(after_end, unseen);

  TimeUse open = use_of(place.open);
  if (end == End::Hung) open = TimeUse::Hung;
  if (end == End::Bad && place.open == Phase::Collective) open = TimeUse::Down;
  if (place.report_before_pause && place.open == Phase::Report) open = TimeUse::Paused;
  if (place.open != Phase::None)
    filling.add(open, place.open_for + (goes_on ? unseen : Duration{}));

  for (std::size_t i = 0; i < place.closed.size(); ++i) {
    const Phase phase = static_cast<Phase>(i);
    if (phase == Phase::Start) continue;
    Duration time = place.closed[i];
    if (phase == Phase::Report && place.report_before_pause) {
      filling.add(TimeUse::Paused, time - *place.report_before_pause);
      time = *place.report_before_pause;
    }
    filling.add(use_of(phase), time);
  }

  // Last: a process that stood by has started long before it had the place.
  filling.add(TimeUse::Start, place.closed[index(Phase::Start)]);

  if (place.open != Phase::None) {
    filling.rest(adopted_ && place.ended_at ? after_end : TimeUse::Start);
  } else if (noted_ && noted_->world_size > 0 && !seen) {
    for (std::size_t i = 0; i < kTimeUses.size(); ++i) {
      const auto use = static_cast<TimeUse>(i);
      filling.add(use, noted_->accounts[use] / noted_->world_size);
    }
    filling.rest(after_end);
  } else {
    if (!adopted_)
      filling.add(TimeUse::Start, place.started_at ? *place.started_at - began_ : filling.left());
    filling.rest(TimeUse::Unknown);
  }
  TimeAccounts& accounts = filling.accounts();
  if (bad) {
    const Duration kept = std::min(place.kept, accounts[TimeUse::Step]);
    accounts[TimeUse::Lost] += accounts[TimeUse::Step] - kept;
    accounts[TimeUse::Step] = kept;
  }
  return accounts;
}

TimeAccounts AttemptTime::accounts(End end, TimePoint now) const {
  TimeAccounts all;
  for (const Place& place : places_) all += accounts_of(place, end, now);
  return all;
}

}  // namespace train
