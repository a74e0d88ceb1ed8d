// What a run's folder says of how far it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/core/ingest_history.h"
#include "lib/observe/metrics_log.h"
#include "lib/storage/run_folder.h"

namespace train {

struct RunSoFar {
  std::string state = "unknown";
  std::int64_t attempt = 0, world_size = 0, restarts = 0;
  std::string checkpoint;
  std::optional<ReportRecord> report;  // rank 0's newest
  IngestHistory ingest;
};

/// Read it from the journal and the reports. Blocks.
RunSoFar run_so_far(const RunFolder& folder);

/// Return a metric's value for people.
std::string metric_text(const MetricValue& value);

}  // namespace train
