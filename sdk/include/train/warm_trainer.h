// Runs a job several times by the same workers: their processes stay between the runs, with the
// program's global variables, what it has loaded, and the GPU memory that it holds, so that the
// next run begins at once. Each run has a folder, checkpoints and a result of its own, as if a
// Trainer had run it. (Semantics: several run() of Ray Train's first Trainer, after one start().)
// docs/driver.md has what stays and what begins anew.
//
//   train::WarmTrainer trainer("job.yaml");
//   for (const double lr : {1e-2, 1e-3})
//     std::cout << trainer.run(train::Dict{{"lr", lr}}).metrics.at("loss").as<double>();
#pragma once

#include <train/trainer.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace train {

struct WarmTrainerOptions {
  /// The folder of the runs. By default <name> or warm_<date>_<time> in the spec's storage_path,
  /// which cannot be an object store. Runs that are there already stay, and the numbers go on after
  /// them.
  std::filesystem::path logdir = {};
  TrainerOptions trainer = {};
};

struct WarmRunOptions {
  /// Are told of this run.
  std::vector<std::shared_ptr<Callback>> callbacks = {};
  /// The checkpoint to begin with, as in the spec: a path or URL.
  std::string resume_from_checkpoint = {};
};

/// Use it, and its Trainers, from one thread.
class WarmTrainer {
 public:
  /// What the constructors of Trainer take. Nothing is started yet: the first run starts the
  /// workers. If one of them has died since, or a run has failed, the next run starts new ones.
  explicit WarmTrainer(std::filesystem::path job, Dict overrides = {},
                       WarmTrainerOptions options = {});
  explicit WarmTrainer(Dict spec, WarmTrainerOptions options = {});
  /// In a worker, the constructor runs the loop of each run, and ends the process.
  WarmTrainer(int argc, char** argv, Dict spec, const std::function<void(const Config&)>& loop,
              WarmTrainerOptions options = {});
  ~WarmTrainer();  // as shutdown()
  WarmTrainer(WarmTrainer&&) noexcept;
  WarmTrainer& operator=(WarmTrainer&&) noexcept;

  /// Have a callback told of all runs that follow.
  void add_callback(std::shared_ptr<Callback> callback);

  /// Run the job once more: run_001, run_002 and so on in logdir(). `config` takes the place of the
  /// spec's train_loop_config. Throws what Trainer::fit() throws, and Failure("unavailable") after
  /// shutdown().
  RunResult run(const std::optional<Dict>& config = {}, const WarmRunOptions& options = {});
  /// Return the Trainer of the next run, to iterate() over its rounds, or to call its workers. One
  /// run goes on at a time: throws Failure("invalid_argument") if the one before has not ended.
  Trainer next(const std::optional<Dict>& config = {}, const WarmRunOptions& options = {});

  /// Return the folder of the runs. Throws SpecError if the spec is wrong.
  std::filesystem::path logdir();
  /// Return the newest run's folder; nothing before the first one.
  std::optional<std::filesystem::path> latest_run_dir() const;

  /// End the workers: train::run() returns in them, and what lives after `patience` is killed.
  /// A run that goes on is stopped in good order before. Nothing can be run after it.
  void shutdown(std::chrono::milliseconds patience = std::chrono::seconds(5));

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace train
