// Decides how many ingest workers a dataset has: one more while ranks wait for rows and the ingest
// workers are busy, one less while ranks do not wait and the ingest workers are idle. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "launcher/core/job_spec.h"
#include "lib/base/ids.h"
#include "lib/base/time.h"

namespace train {

class IngestPolicy {
 public:
  /// `most`: how many there is room for, at most `spec.workers.max`. `now`: how many there are.
  IngestPolicy(const IngestSpec& spec, int most, int count)
      : spec_(spec), most_(most), count_(count) {}

  /// Note how long a rank's loop has waited for rows so far. `taken`: when, by its node's clock.
  void rank_waited(Rank rank, Duration waited, Duration taken, TimePoint now);
  /// Note how much processor time the process `name` has used so far.
  void worker_used(const std::string& name, Duration cpu, TimePoint now);
  /// Forget a process that has ended.
  void worker_gone(const std::string& name) { used_.erase(name); }
  /// There are `count` from now on, whoever decided that: watch anew.
  void changed(int count);

  /// Return how many there should be now. Call it after each sample.
  int advance(TimePoint now);

  /// Return the shares that the newest decision rests on: of ranks' time that they waited, of
  /// ingest workers' claims that they used; none as long as they are not known.
  std::optional<double> waiting(TimePoint now) const;
  std::optional<double> busy(TimePoint now) const;

 private:
  struct Counter {
    Duration value{}, at{};
    double share = 0;    // of the time between the newest two samples
    bool known = false;  // there have been two
    TimePoint sampled{};
    void sample(Duration value_now, Duration at_now, TimePoint now);
  };

  IngestSpec spec_;
  int most_, count_;
  std::map<Rank, Counter> waited_;
  std::map<std::string, Counter> used_;  // by name of the process
  std::optional<TimePoint> short_since_, idle_since_;
};

}  // namespace train
