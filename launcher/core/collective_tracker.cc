#include "launcher/core/collective_tracker.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/model/backend_profile.h"

namespace train {

std::string list_ranks(const std::vector<Rank>& ranks) {
  constexpr std::size_t kShown = 8;
  std::vector<std::int32_t> shown;
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) shown.push_back(ranks[i].value);
  const std::string text =
      fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(shown, ", "));
  return ranks.size() <= kShown ? text : fmt::format("{}, … ({} in all)", text, ranks.size());
}

// Backends' calls have a numbering of their own.
static std::uint64_t number_of(std::uint64_t sequence) {
  return sequence > kBackendCollectives ? sequence - kBackendCollectives : sequence;
}

std::string CollectiveTracker::missing_ranks(const Call& call) const {
  std::vector<Rank> missing;
  for (int rank = 0; rank < world_size_; ++rank) {
    if (call.parts.count(Rank{rank}) == 0) missing.push_back(Rank{rank});
  }
  return list_ranks(missing);
}

CollectiveRelease CollectiveTracker::answer(CollectiveRelease release) {
  calls_.erase(release.sequence);
  answered_[release.sequence] = release;
  if (answered_.size() > kAnswersKept) {
    forgotten_ = answered_.begin()->first;
    answered_.erase(answered_.begin());
  }
  return release;
}

std::optional<CollectiveRelease> CollectiveTracker::join(Rank rank, std::uint64_t sequence,
                                                         const std::string& name, std::string data,
                                                         TimePoint now) {
  if (const auto known = answered_.find(sequence); known != answered_.end()) {
    CollectiveRelease again = known->second;
    again.only_for = rank;
    return again;
  }
  if (forgotten_ && sequence <= *forgotten_) {
    return CollectiveRelease{
        sequence,
        {},
        fmt::format("call {} ('{}') was over long ago", number_of(sequence), name),
        rank};
  }
  const auto [entry, first] = calls_.try_emplace(sequence, Call{name, rank, {}, 0, now, false});
  Call& call = entry->second;
  if (call.name != name) {
    const std::string error = fmt::format(
        "ranks disagree at their collective call {}: rank {} is in '{}', rank {} in '{}'; all "
        "ranks must make the same calls in the "
        "same order",
        number_of(sequence), call.named_by.value, call.name, rank.value, name);
    return answer({sequence, {}, error});
  }
  std::string& part = call.parts[rank];  // may arrive again after a lost link
  call.bytes = call.bytes - part.size() + data.size();
  part = std::move(data);
  if (call.bytes > kCollectiveResultBytesMax) {
    return answer(
        {sequence,
         {},
         fmt::format("'{}': {} bytes from {} ranks so far; all ranks together may send {} in a "
                     "collective call (for larger data use a checkpoint or the process group)",
                     name, call.bytes, call.parts.size(), kCollectiveResultBytesMax)});
  }
  if (static_cast<int>(call.parts.size()) == world_size_) {
    std::vector<std::string> parts;
    parts.reserve(call.parts.size());
    for (auto& [r, text] : call.parts) parts.push_back(std::move(text));
    return answer({sequence, std::move(parts), {}});
  }
  for (Rank ended : ended_) {
    if (call.parts.count(ended) != 0) continue;
    return answer(
        {sequence,
         {},
         fmt::format("'{}' cannot complete: rank {} has already ended", name, ended.value)});
  }
  return std::nullopt;
}

std::optional<CollectiveRelease> CollectiveTracker::answered(CollectiveRelease release) {
  if (answered_.count(release.sequence) != 0) return std::nullopt;
  const bool waited_for = calls_.count(release.sequence) != 0;
  answer(release);
  return waited_for ? std::optional(std::move(release)) : std::nullopt;
}

std::vector<CollectiveRelease> CollectiveTracker::rank_ended(Rank rank) {
  ended_.insert(rank);
  std::vector<CollectiveRelease> releases;
  for (const auto& [sequence, call] : calls_) {
    if (call.parts.count(rank) != 0) continue;
    releases.push_back({sequence,
                        {},
                        fmt::format("'{}' cannot complete: rank {} has ended without calling it",
                                    call.name, rank.value)});
  }
  for (const CollectiveRelease& release : releases) answer(release);
  return releases;
}

std::vector<std::string> CollectiveTracker::overdue(TimePoint now) {
  std::vector<std::string> texts;
  for (auto& [sequence, call] : calls_) {
    if (call.warned || now - call.since < kCollectiveWarnAfter) continue;
    call.warned = true;
    texts.push_back(fmt::format("{} (call {}): waiting for {} for {}", call.name,
                                number_of(sequence), missing_ranks(call),
                                format_duration(now - call.since)));
  }
  return texts;
}

std::optional<TimePoint> CollectiveTracker::next_deadline() const {
  std::optional<TimePoint> next;
  for (const auto& [sequence, call] : calls_) {
    if (call.warned) continue;
    const TimePoint due = call.since + kCollectiveWarnAfter;
    if (!next || due < *next) next = due;
  }
  return next;
}

}  // namespace train
