// The workers that stay between the runs of a WarmTrainer: the train-run of the run that has ended
// still holds them. All runs of a WarmTrainer share one WarmGroup. Belongs to one thread.
#pragma once

#include <train/trainer.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sdk/trainer/driver_process.h"

namespace train::trainer {

class WarmGroup {
 public:
  /// Throw Failure("unavailable") after end().
  void check_active() const;
  /// Say that there are no workers to keep: num_workers is 0.
  void keep_none() { keeps_workers_ = false; }
  /// Return what the next run's train-run is told, so that it takes the workers, and keeps them.
  std::vector<std::string> words() const;
  /// Say that the next run's workers have started: those that it has not taken may end. Waits for
  /// nothing.
  void let_go();
  /// Take over the train-run of a run that has ended, whose workers stay.
  void hold(std::shared_ptr<DriverProcess> process, const std::filesystem::path& run);
  /// End the workers, and keep none from now on.
  void end(std::chrono::milliseconds patience);

  /// The newest run, while its Trainer lives.
  Trainer::Impl* newest_run() const { return newest_run_; }
  void made(Trainer::Impl* run) { newest_run_ = run; }
  /// Say that a run's Trainer goes.
  void forget(Trainer::Impl* run);
  /// Return the newest run's folder; empty before the first one.
  std::filesystem::path latest_run_dir() const;

 private:
  void wait_for_leaving();

  bool active_ = true;
  bool keeps_workers_ = true;
  std::shared_ptr<DriverProcess> holder_;
  std::filesystem::path run_;               // of the holder
  std::shared_ptr<DriverProcess> leaving_;  // its workers were taken, or could not be used
  Trainer::Impl* newest_run_ = nullptr;
  std::filesystem::path latest_run_dir_;  // before newest_run_
};

}  // namespace train::trainer
