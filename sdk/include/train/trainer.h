// Runs a job from a program: the driver starts train-run as its child, follows the run, and may
// stop it. The driver's life does not hold up training: workers wait for it only if it has asked
// for a pace. When the driver dies, train-run stops the run in good order. docs/driver.md has the
// whole picture, and the protocol for other languages. (Semantics: Ray Train's Trainer,
// TrainingIterator and TrainingCallback.)
//
//   train::Trainer trainer("job.yaml", {{"train_loop_config.lr", 1e-3}});
//   const train::RunResult result = trainer.fit();
//   std::cout << result.metrics.at("loss").as<double>();
#pragma once

#include <train/checkpoint.h>
#include <train/config.h>
#include <train/error.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace train {

/// How one rank of an attempt failed.
struct RankFailure {
  int rank = 0;
  std::string node;
  std::string kind;               // exited, killed, lost, start_failed, hung
  std::string cause;              // one line for people, as train-run shows it
  std::optional<int> exit_code;   // of exited
  std::string signal;             // of killed: "SIGSEGV"
  std::string type, what, stack;  // of an exception that left train::run(); else empty
};

/// An attempt that failed.
struct AttemptFailure {
  int attempt = 0;
  std::string cause;                 // the root cause, in one line
  std::map<int, RankFailure> ranks;  // that failed by themselves, by rank
  int omitted = 0;                   // failed ranks that are not in `ranks`, because they are many
};

/// A finished run, or what there is of one that failed.
struct RunResult {
  /// Read a run's folder. Throws Failure("not_found") if the run has not ended, or is none.
  static RunResult from_path(const std::filesystem::path& run);

  /// Return the kept checkpoint whose `metric` is best: the largest for mode "max", the smallest
  /// for "min"; of equal ones, the newest. Those without this metric, or with NaN, are left out;
  /// nothing if all are. Throws Failure("invalid_argument") for another mode.
  std::optional<Checkpoint> get_best_checkpoint(const std::string& metric,
                                                const std::string& mode = "max") const;

  std::string run;             // its name
  std::filesystem::path path;  // its folder; for a run in an object store, the working copy
  std::string outcome;         // succeeded, failed, interrupted, preempted, refused, replaced
  int exit_code = 0;           // train-run's
  std::string cause;           // why it did not succeed, or why it was stopped; else empty
  Dict metrics;                // rank 0's last report
  Value return_value;          // of rank 0's loop: set_result(), or what it returned; else null
  std::vector<Value> results;  // the same by rank
  std::vector<Checkpoint> checkpoints;        // that are kept, oldest first; metrics() of each
  std::optional<Checkpoint> checkpoint;       // the newest
  std::optional<Checkpoint> best_checkpoint;  // by the spec's score_attribute
};

/// The run did not succeed. `result()` is what there is of it; its `path` is empty if there was no
/// run. The subclasses say who is to act.
class TrainingFailed : public std::runtime_error {
 public:
  TrainingFailed(const std::string& text, RunResult result)
      : std::runtime_error(text), result_(std::make_shared<RunResult>(std::move(result))) {}
  const RunResult& result() const noexcept { return *result_; }

 private:
  std::shared_ptr<RunResult> result_;  // an exception must be copyable without throwing
};
/// A worker or node failed, and no restart was left.
class WorkerGroupError : public TrainingFailed {
 public:
  WorkerGroupError(const std::string& text, RunResult result, AttemptFailure failure)
      : TrainingFailed(text, std::move(result)),
        failure_(std::make_shared<AttemptFailure>(std::move(failure))) {}
  /// Return the last attempt's failure.
  const AttemptFailure& failure() const noexcept { return *failure_; }

 private:
  std::shared_ptr<AttemptFailure> failure_;
};
/// Ranks hung, and no restart was left.
class HangError : public WorkerGroupError {
  using WorkerGroupError::WorkerGroupError;
};
/// The run was stopped from outside and can be resumed: a signal, `train-run stop`, a preemption.
class PreemptionError : public TrainingFailed {
  using TrainingFailed::TrainingFailed;
};
/// The spec or an option is wrong. what() has every mistake.
class SpecError : public TrainingFailed {
  using TrainingFailed::TrainingFailed;
};
/// There is no usable cluster, no permission, or another train-run has the run.
class ClusterError : public TrainingFailed {
  using TrainingFailed::TrainingFailed;
};
/// train-run cannot be started, died, or cannot write the run's files.
class ControllerError : public TrainingFailed {
  using TrainingFailed::TrainingFailed;
};

/// A call that not every rank has answered with a result.
class CallFailed : public std::runtime_error {
 public:
  CallFailed(const std::string& text, std::map<int, Value> results,
             std::map<int, std::string> errors, std::map<int, std::string> kinds)
      : std::runtime_error(text),
        answers_(std::make_shared<Answers>(
            Answers{std::move(results), std::move(errors), std::move(kinds)})) {}
  /// Return the results of the other ranks, and why these have none; both by rank.
  const std::map<int, Value>& results() const noexcept { return answers_->results; }
  const std::map<int, std::string>& errors() const noexcept { return answers_->errors; }
  /// Return of what kind each error is: "thrown" (the function was called, and threw it), "refused"
  /// (it was not called: there is none, or the run is being stopped), "lost" (the worker has ended,
  /// or there was none), or "timeout".
  const std::map<int, std::string>& kinds() const noexcept { return answers_->kinds; }

 private:
  struct Answers {
    std::map<int, Value> results;
    std::map<int, std::string> errors;
    std::map<int, std::string> kinds;
  };
  std::shared_ptr<Answers> answers_;
};

struct CallOptions {
  std::vector<int> ranks = {};  // empty: all
  /// How long to wait for the workers' start, and then for the answers: 1 ms to 24 hours.
  std::chrono::milliseconds timeout{30'000};
  /// How often to call the workers of the next attempt instead, if some have ended before they
  /// answered: because a worker or node died, or the group has changed its size. If the attempt
  /// failed by an exception of the function itself, which left the worker's loop, too, nobody is
  /// called again. The functions must be such that it does no harm if they have run before.
  int retries = 0;
  /// An exception of the function ends its worker, too, as an operator's pass does. The call then
  /// returns once the attempt has ended, so that the next one reaches the workers that follow.
  bool ends_worker = false;
};

/// The n-th report of every rank of an attempt.
struct Round {
  int attempt = 0;
  /// Counts from 1 in the attempt: the ranks' report number.
  std::uint64_t number = 0;
  /// Counts from 1 in the run: a round that is done again after a failure has its old ordinal.
  std::uint64_t ordinal = 0;
  bool redone = false;          // an earlier attempt has given this ordinal already
  bool has_checkpoint = false;  // rank 0 reported one; it may not be committed yet
  std::vector<Dict> reports;    // by rank
};

/// What happens in the run, told in the driver, on the thread that calls fit() or Rounds::next(),
/// one call at a time, in the order of the run. An exception of a callback is printed, and named;
/// after three in a row, the callback is switched off. Callbacks slow nothing down but the driver.
class Callback {
 public:
  virtual ~Callback() = default;
  /// What messages call it.
  virtual std::string name() const { return "a callback"; }
  /// The run's folder exists. Called once.
  virtual void start_training(const std::filesystem::path& /*logdir*/) {}
  /// All ranks have made the round's report. Called once for each round.
  virtual void handle_result(const Round& /*round*/) {}
  /// The checkpoint of the round (nothing: it was given up, or the attempt failed before the
  /// commit), or a round without a checkpoint. Called once for each round, after handle_result().
  virtual void after_report(const Round& /*round*/,
                            const std::optional<Checkpoint>& /*checkpoint*/) {}
  /// An attempt has failed; the next one has not begun.
  virtual void after_exception(const AttemptFailure& /*failure*/) {}
  /// The run has ended, or the driver's own code threw. `error`: empty if the run succeeded. Called
  /// once, last.
  virtual void finish_training(const std::string& /*error*/) {}
};

struct TrainerOptions {
  /// The program to start; empty: $TRAINRUN_PROGRAM, else train-run from PATH.
  std::string program = {};
  /// More words for train-run, such as {"--hosts", "gpu-1:7070"}.
  std::vector<std::string> arguments = {};
  /// What train-run prints (the same as on a terminal) goes to this process's stdout and stderr;
  /// false: nowhere, but SpecError and ControllerError still quote stderr.
  bool show_output = true;
  /// When this process dies, the run continues, as `train-run attach` shows it. Else it stops.
  bool leave_run_on_exit = false;
};

struct StartOptions {
  /// How many rounds the workers may be ahead of the driver, 1 to 64: a worker's report() returns
  /// once fewer than so many of its rounds are unacknowledged. The driver acknowledges a round when
  /// it asks for the next one. 1 is lock step: no rank begins a step before the driver is done with
  /// the one before, so that stop() stops all ranks at exactly that step. 0: workers never wait for
  /// the driver. Once the driver is gone, or a rank has ended, nobody waits any more.
  int pace = 0;
};

class Rounds;

class Trainer {
 public:
  /// Run the job of a YAML file. `overrides` lie over it: {"train_loop_config.lr", 1e-3} is
  /// `--set train_loop_config.lr=0.001`.
  explicit Trainer(std::filesystem::path job, Dict overrides = {}, TrainerOptions options = {});
  /// Run the job of a spec (the keys of the YAML). Relative paths begin at the current folder.
  explicit Trainer(Dict spec, TrainerOptions options = {});
  /// Run this program itself as the workers, with `loop` as their training loop: the spec has no
  /// `command`. Call it first thing in main(): in a worker, the constructor runs the loop and ends
  /// the process. The workers get the same arguments. With `ship`, nodes get this program, too, if
  /// it lies in working_dir.
  Trainer(int argc, char** argv, Dict spec, const std::function<void(const Config&)>& loop,
          TrainerOptions options = {});
  ~Trainer();  // stops a run that was begun and not finished, and waits for its end
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  void add_callback(std::shared_ptr<Callback> callback);

  /// Run the job to its end. Blocks. Returns the result of a run that succeeded or met a stop
  /// condition (stop() is one); throws a TrainingFailed otherwise. A Trainer runs once: throws
  /// Failure("invalid_argument") the second time, and inside a worker.
  RunResult fit();
  /// Begin the job, and give its rounds as they are complete, instead of fit(). The loop over them
  /// ends with the run; then call result(). Throws Failure("invalid_argument") for another pace
  /// than start()'s.
  Rounds iterate(const StartOptions& options = {});
  /// Begin the job, and return; fit() or iterate() then follow it. Workers can be called from now
  /// on, also from callbacks, and from a loop over rounds.
  void start(const StartOptions& options = {});
  /// Call a function that the workers' programs serve (<train/serve.h>), and return what they
  /// answer, by rank. Waits for the workers' start, and for the answers; what happens to the run
  /// meanwhile is told afterwards. Without `retries`, a call is never repeated: if the attempt ends
  /// before a rank has answered, that is the rank's error. Only the thread that follows the run may
  /// call. Throws
  /// CallFailed; Failure("invalid_argument") before start(), fit() or iterate(), and for an
  /// argument of more than 512 KiB; Failure("unavailable") once the run has ended.
  std::map<int, Value> call(const std::string& name, const Value& argument = {},
                            const CallOptions& options = {});
  /// Tell the callbacks what has happened so far, without waiting for more: for a driver that calls
  /// its workers and takes no rounds. On the thread that follows the run.
  void catch_up();
  /// Return the run's folder on this machine; empty until the run has begun.
  std::filesystem::path folder() const;
  /// Ask the run to stop in good order, as a stop condition does: the workers checkpoint together,
  /// and the run succeeds. Any thread may call it; does not wait. Before the run has begun and
  /// after its end it does nothing.
  void stop();
  /// Return the result once iterate()'s rounds are over; throws as fit() does, each time. If rounds
  /// are left and `force`, stop the run, wait for its checkpoints and end, and return the result;
  /// without `force`, return nothing.
  std::optional<RunResult> result(bool force = false);

  struct Impl;

 private:
  friend class Rounds;
  friend class WarmTrainer;
  explicit Trainer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The rounds of a running job. After a failure, the rounds of the next attempt follow. Valid while
/// its Trainer lives. If the run succeeds, and its ranks have ended with unequal numbers of
/// reports, next() throws Failure("ranks_disagree") that names the numbers, unless the run was
/// stopped.
class Rounds {
 public:
  /// Wait for the next round, and return it; nothing at the run's end. A rank that makes a round
  /// wait for more than 60 s is named on stderr.
  std::optional<Round> next();

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Round;
    using difference_type = std::ptrdiff_t;
    using pointer = const Round*;
    using reference = const Round&;
    const Round& operator*() const { return *round_; }
    const Round* operator->() const { return &*round_; }
    Iterator& operator++() {
      round_ = rounds_->next();
      return *this;
    }
    bool operator==(const Iterator& other) const {
      return round_.has_value() == other.round_.has_value();
    }

   private:
    friend class Rounds;
    Rounds* rounds_ = nullptr;
    std::optional<Round> round_;
  };
  Iterator begin();
  Iterator end() { return {}; }

 private:
  friend class Trainer;
  explicit Rounds(Trainer::Impl& impl) : impl_(&impl) {}
  Trainer::Impl* impl_;
};

}  // namespace train
