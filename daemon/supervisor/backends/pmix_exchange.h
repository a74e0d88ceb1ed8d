// How nodes exchange what a fence of PMIx collects: as data of collectives, to which each rank of a
// node brings a piece of its node's data. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

class PmixExchange {
 public:
  /// What all nodes exchange in a fence; more is refused.
  static constexpr std::size_t kBytesMax = 3u << 20;

  /// `node_sizes`: how many ranks each node has, which follow each other. `data`: ours.
  PmixExchange(std::vector<std::int32_t> node_sizes, std::int32_t node_rank,
               const std::string& data);

  /// Return what our `local`-th rank brings to the next collective.
  std::string part(std::int32_t local) const;
  /// Take in what all ranks brought to it. Return whether that was the last one.
  Result<bool> take(const std::vector<std::string>& parts);
  /// Return the data of all nodes, one after the other, once take() has returned true.
  std::string data() const;

 private:
  std::size_t share_bytes() const;  // of a rank, in a collective

  const std::vector<std::int32_t> node_sizes_;
  const std::int32_t node_rank_;
  const std::string own_;           // with its size in front
  std::vector<std::string> nodes_;  // what has come from each
  std::vector<std::size_t> sizes_;  // of their data
  std::size_t taken_ = 0;           // collectives
};

}  // namespace train
