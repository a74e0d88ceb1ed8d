#include "launcher/core/sequence_tracker.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {

Result<std::uint32_t> SequenceTracker::accept(Rank rank, std::uint64_t first, std::uint32_t count) {
  std::uint64_t& last = last_[rank];
  if (first > last + 1) {
    return Error{Errc::Protocol, fmt::format("reports {} to {} of rank {} are missing", last + 1,
                                             first - 1, rank.value)};
  }
  const auto known = static_cast<std::uint32_t>(std::min<std::uint64_t>(last + 1 - first, count));
  last = std::max(last, first + count - 1);
  // What was known already too: its sender has not heard of the acknowledgement.
  to_acknowledge_.insert(rank);
  return known;
}

std::vector<std::pair<Rank, std::uint64_t>> SequenceTracker::synced() {
  std::vector<std::pair<Rank, std::uint64_t>> acks;
  acks.reserve(to_acknowledge_.size());
  for (Rank rank : to_acknowledge_) acks.emplace_back(rank, last_[rank]);
  to_acknowledge_.clear();
  return acks;
}

std::uint64_t SequenceTracker::last(Rank rank) const {
  const auto found = last_.find(rank);
  return found == last_.end() ? 0 : found->second;
}

}  // namespace train
