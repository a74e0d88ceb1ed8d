// Decides which trials go on from another one's checkpoint (population based training, Jaderberg et
// al. 2017), as Ray Tune does: a trial that is among the worst takes over the checkpoint and the
// values of one of the best, and changes the values a little. Trials are compared by what they were
// worth at their checkpoints, so that the checkpoint that is taken over is the one that was better.
// Pure; SearchController calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/search/search_spec.h"

namespace train {

/// A checkpoint of a trial, and what the trial was worth there.
struct PbtCheckpoint {
  double time = 0;
  double value = 0;             // NaN: the worst
  std::string checkpoint = {};  // its name below the sweep's `donors`
  bool operator==(const PbtCheckpoint&) const = default;
};

class Pbt {
 public:
  explicit Pbt(const SearchSpec& spec);

  /// Return whether the trial's checkpoint at this time is to be compared with those of the others.
  bool is_due(int trial, double time) const;
  /// Take a checkpoint in that is due. Return the trial whose newest scored checkpoint this one is
  /// to go on from, if it is among the worst. `part`: how often the trial has begun, from 1.
  std::optional<int> checkpointed(int trial, int part, PbtCheckpoint scored);
  /// Note that the trial goes on from a checkpoint that another had made at this time.
  void exploited(int trial, double time);
  /// Compare the trial no more.
  void ended(int trial);

  /// Return the trial's newest scored checkpoint; nothing if it has none, or has ended.
  const std::optional<PbtCheckpoint>& newest(int trial) const;
  /// Return the values of a trial that goes on as this part with those of another.
  boost::json::object explored(const boost::json::object& values, int trial, int part) const;

 private:
  struct Member {
    double decided = 0;  // the time of its last comparison
    std::optional<PbtCheckpoint> newest = {};
  };
  Member& member(int trial);
  boost::json::value explored(const Parameter& parameter, const boost::json::value& value,
                              int trial, int part) const;

  const SearchSpec spec_;
  const PbtSpec pbt_;
  std::vector<Member> members_;  // by trial
};

}  // namespace train
