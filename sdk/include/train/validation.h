// Lets a program validate committed checkpoints beside the training, and ask for the results.
#pragma once

#include <train/checkpoint.h>
#include <train/config.h>

#include <chrono>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace train {

/// Set the function that validates a checkpoint; call this before train::run. If the spec has
/// `checkpoint_config.validation` without a command of its own, the supervisor starts the program
/// once more for each committed checkpoint, beside the workers and as a world of one. There,
/// train::run calls `validate` instead of the loop, with that checkpoint (its files are verified as
/// they are read) and train_loop_config. The metrics that `validate` returns override those that
/// the checkpoint was reported with; checkpoint_score_attribute, retention and `best` use them. An
/// exception fails only that validation, and the run shows its text as the reason.
void validation(std::function<Dict(const Checkpoint& checkpoint, const Config& config)> validate);

enum class CheckpointStatus {
  Committed,          // and not to be validated
  PendingValidation,  // waits for its validation, or is being validated
  Validated,
  ValidationTimeout,
  ValidationFailed
};

enum class Consistency {
  Committed,  // return what is committed, validated or not
  Validated   // wait until no checkpoint that is committed now is pending validation
};

/// A checkpoint that was committed and is still kept.
struct ReportedCheckpoint {
  Checkpoint checkpoint;     // its files are not verified
  std::uint64_t number = 0;  // 12 for checkpoint_000012
  Dict metrics;              // as reported, overridden by those of its validation
  CheckpointStatus status = CheckpointStatus::Committed;
  std::string error;  // why its validation returned no metrics
};

struct ReportedOptions {
  Consistency consistency = Consistency::Validated;
  std::chrono::milliseconds timeout = std::chrono::milliseconds::max();
};

/// Return all checkpoints that the run keeps, oldest first (if there are very many, only the newest
/// whose metrics fit into 2 MiB). Waits until every checkpoint that this rank has reported is
/// committed or given up, and, with Consistency::Validated, until none that is committed then is
/// pending validation. Not a collective: each rank may call it or not. Throws Failure("timeout")
/// when this takes longer than `timeout`, and Stopped as report() does.
std::vector<ReportedCheckpoint> get_all_reported_checkpoints(const ReportedOptions& options = {});

}  // namespace train
