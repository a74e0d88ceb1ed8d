// Keeps the newest results of collectives that launchers have sent here, for the next launcher:
// ranks of other nodes may still wait for one. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "lib/wire/attempt_messages.h"

namespace train {

class AnsweredCollectives {
 public:
  /// Shared: a simulated cluster has one for all its supervisors.
  using SharedResult = std::shared_ptr<const CollectiveResult>;
  static constexpr std::size_t kCountMax = 64;
  static constexpr std::size_t kBytesMax = 16u << 20;  // the newest is kept whatever its size

  /// Add a result. `generation`: that of the launcher that sent it. A result that is here already
  /// then counts as that launcher's.
  void add(std::uint64_t generation, SharedResult result);
  /// Return the results of older launchers, oldest first.
  std::vector<SharedResult> from_before(std::uint64_t generation) const;

 private:
  struct Answer {
    std::uint64_t generation = 0;
    std::size_t bytes = 0;
    SharedResult result;
  };
  std::deque<Answer> answers_;
  std::size_t bytes_ = 0;
};

}  // namespace train
