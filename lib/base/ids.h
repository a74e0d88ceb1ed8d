// Strong integer ids, so that nobody can pass a rank where an attempt is meant.
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

/// The index of a worker in its group.
using Rank = Id<struct RankTag, std::int32_t>;
/// The index of a node in an attempt.
using NodeRank = Id<struct NodeRankTag, std::int32_t>;
/// The n-th formation of the worker group, from 0.
using Attempt = Id<struct AttemptTag, std::uint32_t>;
/// The fencing generation of a controller incarnation, from 1.
using Generation = Id<struct GenerationTag, std::uint64_t>;
/// The index of a daemon in the launcher's list.
using NodeId = Id<struct NodeIdTag, std::int32_t>;
/// The n-th checkpoint of an attempt, from 1.
using CheckpointSeq = Id<struct CheckpointSeqTag, std::uint64_t>;

}  // namespace train

template <class Tag, class T>
struct std::hash<train::Id<Tag, T>> {
  std::size_t operator()(const train::Id<Tag, T>& id) const noexcept {
    return std::hash<T>{}(id.value);
  }
};
