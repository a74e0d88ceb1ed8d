// Metrics of runs for Prometheus, in its text format 0.0.4. Names follow its conventions: units in
// the names, counters end with _total. How many series there are is bounded. Pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "launcher/dashboard/run_row.h"
#include "launcher/dashboard/run_view.h"
#include "lib/samples/sample_table.h"

namespace train {

struct MetricLimits {
  std::size_t runs = 200;    // shown one by one; live ones first, then the newest
  std::size_t ranks = 1024;  // of all runs together; of a larger run none is shown
  /// Operators of datasets, once for each rank, of all runs together; of a run with more none.
  std::size_t operators = 4096;
  std::size_t values = 20;   // metric_value{key}, of a run
  double ended_for_s = 300;  // a run that has ended stays for so long
  std::size_t label_bytes = 128;
};

/// What is known of a run.
struct RunMetrics {
  RunRow row = {};
  std::int64_t failed_attempts = 0, checkpoints = 0;
  std::map<std::string, IngestCounts> ingest = {};  // by dataset
  std::vector<SampleTable> samples = {};            // the newest; of live runs
};

/// Return the metrics of the runs. `now`: for how long runs have ended.
std::string prometheus_text(const std::vector<RunMetrics>& runs, const std::string& version,
                            std::chrono::system_clock::time_point now,
                            const MetricLimits& limits = {});

}  // namespace train
