// One worker at one moment: what its loop does and what its processes use.
#pragma once

#include "lib/base/ids.h"
#include "lib/model/fields.h"
#include "lib/model/process_sample.h"
#include "lib/model/worker_progress.h"

namespace train {

struct RankSample {
  Rank rank;
  WorkerProgress progress = {};
  ProcessSample process = {};
  bool operator==(const RankSample&) const = default;
  TRAIN_ARRAY(rank, progress, process)
};

}  // namespace train
