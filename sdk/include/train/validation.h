// Lets a program validate committed checkpoints beside the training, and ask what came of it.
#pragma once

#include <train/checkpoint.h>
#include <train/config.h>

#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace train {

/// Say how a checkpoint is validated; call it before train::run. With
/// `checkpoint_config.validation` in the spec, and no command of its own there, the program is
/// started once more for each committed checkpoint, beside the workers and as a world of one. There
/// train::run calls `validate` with that checkpoint (verified) and train_loop_config, in place of
/// the loop. The metrics that `validate` returns override those that the checkpoint was reported
/// with; checkpoint_score_attribute, retention and `best` go by them. An exception fails that
/// validation only, and its text is the reason that the run shows.
void validation(std::function<Dict(const Checkpoint& checkpoint, const Config& config)> validate);

enum class CheckpointStatus {
  Committed,          // and is not to be validated
  PendingValidation,  // waits for its validation, or is being validated
  Validated,
  ValidationTimeout,
  ValidationFailed
};

enum class Consistency {
  Committed,  // what is committed, whether or not it is validated yet
  Validated   // wait until all that is committed now is validated, as far as it is to be
};

/// A checkpoint that was committed and is still kept.
struct ReportedCheckpoint {
  Checkpoint checkpoint;     // its files are not verified
  std::uint64_t number = 0;  // of checkpoint_000012: 12
  Dict metrics;              // as reported, overridden by those of its validation
  CheckpointStatus status = CheckpointStatus::Committed;
  std::string error;  // why its validation gave no metrics
};

struct ReportedOptions {
  Consistency consistency = Consistency::Validated;
  std::chrono::milliseconds timeout = std::chrono::milliseconds::max();
};

/// Return all checkpoints of the run that are kept, oldest first (of very many, the newest whose
/// metrics fit into 2 MiB). Waits until all that this rank has reported is committed or given up,
/// and, with Consistency::Validated, until what is committed then is validated. Not a collective:
/// each rank may call it or not. Throws Failure("timeout") when this takes longer than `timeout`,
/// and Stopped as report() does.
std::vector<ReportedCheckpoint> get_all_reported_checkpoints(const ReportedOptions& options = {});

}  // namespace train
