#include "launcher/core/sequence_tracker.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {

Result<SequenceTracker::Accepted> SequenceTracker::accept(Rank rank, std::uint64_t first,
                                                          std::uint32_t count) {
  Known& known = ranks_[rank];
  Accepted accepted;
  if (first > known.accepted + 1) {
    if (!adopted_ || known.heard) {
      return Error{Errc::Protocol, fmt::format("reports {} to {} of rank {} are missing",
                                               known.accepted + 1, first - 1, rank.value)};
    }
    accepted.lost = first - 1 - known.accepted;
    known.accepted = first - 1;
  }
  known.heard = true;
  accepted.known =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(known.accepted + 1 - first, count));
  known.accepted = std::max(known.accepted, first + count - 1);
  if (accepted.known > 0 && known.written > 0) to_acknowledge_.insert(rank);
  return accepted;
}

void SequenceTracker::written(Rank rank, std::uint64_t last) {
  Known& known = ranks_[rank];
  known.written = std::max(known.written, last);
  to_acknowledge_.insert(rank);
}

std::vector<std::pair<Rank, std::uint64_t>> SequenceTracker::synced() {
  std::vector<std::pair<Rank, std::uint64_t>> acks;
  acks.reserve(to_acknowledge_.size());
  for (Rank rank : to_acknowledge_) acks.emplace_back(rank, ranks_[rank].written);
  to_acknowledge_.clear();
  return acks;
}

std::uint64_t SequenceTracker::last(Rank rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? 0 : found->second.accepted;
}

}  // namespace train
