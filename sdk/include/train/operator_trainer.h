// The driver of workers that train pass by pass: it decides after each pass over the data what
// comes next (RaySGD's TorchTrainer). The workers run a train::TrainingOperator
// (<train/torch_operator.h>), which has the example. Programs that only steer need no LibTorch, and
// link trainrun::sdk.
#pragma once

#include <train/trainer.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace train {

struct PassOptions {
  /// Only the first batches of the pass; none: all. The next pass begins anew.
  std::optional<std::int64_t> num_steps = {};
  /// With mean_fwd_s, mean_grad_s and mean_apply_s: the time of a batch's forward pass, backward
  /// pass and optimizer step. (Of train(), if train_batch() is the operator's own, where it says so
  /// itself: TrainingOperator::timed().)
  bool profile = false;
  /// How many times to do the pass again, from its beginning, when workers die in it.
  int max_retries = 3;
  /// Anything the operator's functions are to know: BatchInfo::info.
  Dict info = {};
  std::chrono::milliseconds timeout = std::chrono::hours(24);  // the longest there is
};

/// Starts the workers, has them train and validate, and stops them. A worker or node that dies
/// costs a pass: the run starts its workers again, as its spec says, they restore the checkpoint
/// with which the pass before has ended, and the call that was under way is made again. An
/// exception of the operator is not tried again: the call throws CallFailed, with its text, and the
/// workers start again, because some of them may wait for the one that threw. When the run has
/// failed for good, calls throw what Trainer::fit() would. Use it from one thread.
class OperatorTrainer {
 public:
  /// Start the trainer's job, whose program runs an operator (train::run_operator). Callbacks are
  /// told in the calls below.
  explicit OperatorTrainer(Trainer trainer);

  /// Train one pass over the data. Returns the metrics that all ranks have: numbers as their means,
  /// weighted by num_samples, and num_samples as the sum; of what is no number, rank 0's. By
  /// default: num_samples, batch_count, epoch (passes that are done), train_loss, last_train_loss,
  /// time_this_iter_s, time_total_s. The pass is in a committed checkpoint when this returns.
  Dict train(const PassOptions& options = {});
  /// The same, but return each rank's metrics, by rank (RaySGD's reduce_results=False).
  std::vector<Dict> train_by_rank(const PassOptions& options = {});
  /// Validate. Returns num_samples, batch_count, epoch, val_loss and val_accuracy, or what the
  /// operator's validate() gives, as train() does.
  Dict validate(const PassOptions& options = {});
  std::vector<Dict> validate_by_rank(const PassOptions& options = {});

  /// Step the operator's schedules of SchedulerStep::Manual; those of PlateauOptions take the
  /// metric. Return the learning rates of all groups of all optimizers.
  std::vector<double> update_scheduler(std::optional<double> metric = {});
  /// Call a function that the operators serve (train::serve) on every rank, and return the answers
  /// by rank.
  std::vector<Value> apply_all_operators(
      const std::string& name, const Value& argument = {},
      std::chrono::milliseconds timeout = std::chrono::seconds(30));

  /// Commit a checkpoint, and return it: the state of the models for the driver. Where the run's
  /// storage is an object store, or elsewhere, throws Failure("unavailable").
  Checkpoint get_model();
  /// Commit a checkpoint, and copy it into `directory`, which must not be there; it appears when it
  /// is complete. load(), Checkpoint::open() and resume_from_checkpoint of a spec read it.
  void save(const std::filesystem::path& directory);
  /// Go on from such a directory, which the workers' nodes must see. Throws
  /// Failure("invalid_argument") where one does not, and then changes nothing. What does not fit
  /// the operator is an exception of it: CallFailed, and the workers start again as they were.
  void load(const std::filesystem::path& directory);

  /// Stop the run in good order, and return its result.
  RunResult shutdown();
  /// The trainer below, to add callbacks, or to call other functions of the workers.
  Trainer& trainer() { return trainer_; }

 private:
  std::map<int, Value> call(const std::string& name, const Value& argument,
                            const CallOptions& options);
  std::vector<Dict> pass(const std::string& name, Dict argument, const PassOptions& options);

  Trainer trainer_;
  std::optional<std::int64_t> passes_;  // that are done
};

}  // namespace train
