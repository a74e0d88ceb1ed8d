// Strong integer ids, so that a rank is never passed where an attempt is meant.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace train {

template <class Tag, class T>
struct Id {
  using Value = T;
  T value = 0;
  constexpr Id() = default;
  constexpr explicit Id(T v) : value(v) {}
  auto operator<=>(const Id&) const = default;
  constexpr Id next() const { return Id(static_cast<T>(value + 1)); }
};

using Rank = Id<struct RankTag, std::int32_t>;          // index of a worker in its group
using NodeRank = Id<struct NodeRankTag, std::int32_t>;  // index of a node in an attempt
using Attempt = Id<struct AttemptTag, std::uint32_t>;   // formation of the worker group, from 0
using Generation = Id<struct GenerationTag,
                      std::uint64_t>;  // fencing generation of a controller incarnation, from 1
using NodeId = Id<struct NodeIdTag, std::int32_t>;  // index of a daemon in the launcher's list
using CheckpointSeq =
    Id<struct CheckpointSeqTag, std::uint64_t>;  // a rank's n-th report in an attempt, from 1

}  // namespace train

template <class Tag, class T>
struct std::hash<train::Id<Tag, T>> {
  std::size_t operator()(const train::Id<Tag, T>& id) const noexcept {
    return std::hash<T>{}(id.value);
  }
};
