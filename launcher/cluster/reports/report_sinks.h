// Opens the sinks that receive reports in addition to metrics.jsonl: those that
// run_config.callbacks names.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/ids.h"
#include "lib/base/metrics.h"
#include "lib/base/result.h"
#include "lib/observe/report_sink.h"
#include "lib/storage/run_folder.h"

namespace train {

/// Open the sinks of `callbacks` (csv, tensorboard; json is metrics.jsonl itself). TensorBoard
/// shows `spec_yaml` and `hparams`. `adopted`: an earlier launcher's attempt that may go on, if
/// rank 0 has reported in it.
Result<std::vector<std::unique_ptr<ReportSink>>> open_report_sinks(
    const std::vector<std::string>& callbacks, const RunFolder& folder,
    std::chrono::system_clock::time_point wall, const std::string& spec_yaml,
    std::optional<Attempt> adopted = {}, const Metrics& hparams = {});

/// Return train_loop_config as hyperparameters: flattened ("optimizer.lr"), lists as JSON, and
/// without secrets.
Metrics hparams_of(const JobSpec& spec);

}  // namespace train
