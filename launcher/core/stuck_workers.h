// Finds workers of a group that is being taken down that not even SIGKILL has ended: they wait in
// the kernel (state D), for example for a file system that does not answer, and end only when that
// does. Pure: samples in, findings out.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/node_pool.h"
#include "launcher/core/rank_table.h"

namespace train {

/// How long after SIGKILL a worker in state D counts as stuck.
inline constexpr Duration kStuckAfter = seconds(30);

class StuckWorkers {
 public:
  void sampled(const RankSample& sample, TimePoint now) {
    seen_[sample.rank] = {sample.process, now};
  }

  struct Stuck {
    NodeId node;
    std::string text;  // one line
  };
  /// Return a node for each worker that was killed at `killed_at` at the latest and is stuck, if
  /// its newest sample says so.
  std::vector<Stuck> find(const RankTable& ranks, const NodePool& nodes, TimePoint killed_at,
                          TimePoint now) const;

 private:
  struct Seen {
    ProcessSample process;
    TimePoint at;
  };
  std::map<Rank, Seen> seen_;
};

}  // namespace train
