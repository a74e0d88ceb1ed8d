// What a run leaves behind when it ends.
#pragma once

#include "launcher/cluster/run/run_record.h"
#include "launcher/report/summary.h"

namespace train {

/// Write run.json and exit.json, and remove what only a run that goes on needs, unless another
/// launcher has the run. Blocks; storage may hang.
Result<Unit> put_run_end(RunRecord& record, const RunSummary& summary, bool detached);

}  // namespace train
