// Makes tables of what supervisors tell about their workers: rates of the counters that grow. Pure:
// samples and times in, tables out. Not thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/time.h"
#include "lib/model/rank_sample.h"
#include "lib/samples/sample_table.h"

namespace train {

/// Of a rank without a newer sample nothing is known.
inline constexpr Duration kRankSampleAgeMax = seconds(5);

class RankCollector {
 public:
  /// Take samples of ranks on a node. `taken_us`: when they were taken, by any clock of that node;
  /// 0: not known. Samples of an attempt older than the newest are left out. Their numbers are
  /// below 2^51 and not negative (launcher/cluster/links/controller_messages).
  void sampled(Attempt attempt, const std::string& node, std::int64_t taken_us,
               std::span<const RankSample> ranks, TimePoint now);
  /// Forget a rank that has ended.
  void ended(Attempt attempt, Rank rank);

  /// Return the newest values of all ranks. `wall_ms`: now, since 1970.
  SampleTable newest(TimePoint now, std::int64_t wall_ms) const;
  /// Return what is to be kept of the last second: all ranks if they are kRanksKeptMax or fewer,
  /// else the worst, and the sums of each node. Nothing if nothing is known.
  std::vector<SampleTable> kept(TimePoint now, std::int64_t wall_ms) const;

  /// Return the living ranks on a node, ascending.
  std::vector<std::int32_t> ranks_on(const std::string& node) const;
  Attempt attempt() const { return attempt_; }
  /// What is known of a rank; NaN and "": not known.
  struct Row;

 private:
  struct Counters {
    std::int64_t pid = 0, at_us = 0;
    std::int64_t cpu_us = 0, cpu_wait_us = 0, read_bytes = 0, written_bytes = 0, switches = 0;
    std::int64_t steps = 0;
    std::array<std::int64_t, 4> waits_us{};
  };
  struct Known;

  static Counters counters_of(const RankSample& sample, std::int64_t at_us);
  static Row row_of(const RankSample& sample, const std::string& node);
  static void add_rates(Row& row, const Counters& before, const Counters& now);
  std::vector<const Row*> fresh(TimePoint now) const;

  Attempt attempt_;
  std::map<Rank, Known> ranks_;
  std::map<std::string, std::set<Rank>, std::less<>> on_node_;
};

struct RankCollector::Row {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  Rank rank = {};
  std::string node = {}, state = {}, waits_in = {}, cpus = {}, phase = {}, doing = {};
  double pid = kUnknown;
  double quiet_s = kUnknown;
  double steps = kUnknown;
  double step_s = kUnknown;
  double steps_per_s = kUnknown;
  double collectives = kUnknown;
  double data_wait = kUnknown;
  double collective_wait = kUnknown;
  double checkpoint_wait = kUnknown;
  double report_wait = kUnknown;
  double cpu = kUnknown;
  double cpu_wait = kUnknown;
  double rss = kUnknown;
  double memory_limit = kUnknown;
  double processes = kUnknown;
  double threads = kUnknown;
  double read_per_s = kUnknown;
  double written_per_s = kUnknown;
  double switches_per_s = kUnknown;
};

struct RankCollector::Known {
  Row row;
  Counters counters;
  TimePoint sampled_at{};
};

}  // namespace train
