// Passes checkpoints on from report(), in the order of their reports. Its own thread runs the
// writers that create the files, and hands over each finished folder. At most two checkpoints are
// unresolved at a time: the next report with a checkpoint waits.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "lib/wire/worker_messages.h"
#include "sdk/client/checkpoint_impl.h"
#include "sdk/client/session.h"

namespace train::sdk {

/// Limit on checkpoints that are staged or being staged, and have no CheckpointOutcome yet. It
/// bounds the disk space for staging.
inline constexpr int kUnresolvedCheckpointsMax = 2;

class CheckpointStager {
 public:
  struct Job {
    CheckpointStaged staged;  // `dir`: where the files are or will be written
    std::function<void(const std::filesystem::path&)> write;  // empty: the files exist already
  };
  /// Call `hand_over` for each job, in order, on the stager's thread. A job whose writer failed has
  /// its error set.
  explicit CheckpointStager(std::function<void(CheckpointStaged)> hand_over)
      : hand_over_(std::move(hand_over)) {}
  ~CheckpointStager();
  CheckpointStager(const CheckpointStager&) = delete;
  CheckpointStager& operator=(const CheckpointStager&) = delete;

  void add(Job job);
  /// Wait until all jobs are handed over, however long writers take. Returns at once when a writer
  /// calls it.
  void drain();
  /// drain(), and end the thread. Nothing may be added any more.
  void stop();

 private:
  void run();

  std::function<void(CheckpointStaged)> hand_over_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // the front one is in progress
  bool stopping_ = false;
  std::thread thread_;  // started by the first job
};

/// Return `checkpoint` as one that is handed over without a copy (Upload::None). Throws Failure
/// when no folder can be moved into this worker's storage.
Checkpoint to_be_moved(const Checkpoint& checkpoint, const WorkerInfo& info);
/// If `checkpoint` is a directory, copy or move its files into the folder `to`. Throws Failure;
/// then `to` does not exist.
void stage_directory(const Checkpoint::Impl& checkpoint, const std::string& to);

}  // namespace train::sdk
