// Decides when a traind leaves that was started for one run (--end-with-run), and with which exit
// code: once the run has ended, or when nobody controls it any more. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "lib/base/time.h"

namespace train {

class RunEndWatch {
 public:
  using Link = std::uint64_t;
  /// `within`: how long the first launcher may take to come.
  RunEndWatch(Duration within, TimePoint now) : within_(within), since_(now) {}

  /// A launcher has attached a run. `orphan_timeout`: how long its workers wait for another one.
  void attached(Link link, std::string run, Duration orphan_timeout);
  /// A launcher says with which code the run has ended. One that has no run may say so if nobody
  /// has one: its run could not begin.
  void ended(Link link, int exit_code);
  void closed(Link link, TimePoint now);

  struct End {
    int exit_code = 0;
    std::string problem = {};  // empty: the run has ended
  };
  /// Return whether to leave now. `idle`: nothing of a run is left on this node.
  std::optional<End> advance(bool idle, TimePoint now) const;
  /// Return when time alone may change that, or TimePoint::max() for never.
  TimePoint next_deadline() const;
  /// Return the exit code after a drain: of the run, or for one that goes on without this node.
  int code_after_drain() const;

 private:
  const Duration within_;
  TimePoint since_;  // nobody has been there
  std::string run_;  // empty: no launcher has come
  Duration orphan_timeout_{};
  std::set<Link> links_;  // of launchers with the run
  std::optional<int> exit_code_;
};

}  // namespace train
