// Brings checkpoints from report() to the supervisor, in the order of their reports. A thread of
// its own lets writers make their files, and hands each finished folder on. At most two checkpoints
// are unresolved; then the next report with a checkpoint waits.
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

inline constexpr int kUnresolvedCheckpointsMax =
    2;  // staged or being staged, without a CheckpointOutcome: bounds the staging disk space

class CheckpointStager {
 public:
  struct Job {
    CheckpointStaged staged;  // `dir`: where the files are, or shall be written
    std::function<void(const std::filesystem::path&)> write;  // empty: the files are there
  };
  /// Call `hand_over` for each job, in order, on the stager's thread. The job's error is set when
  /// its writer threw.
  explicit CheckpointStager(std::function<void(CheckpointStaged)> hand_over)
      : hand_over_(std::move(hand_over)) {}
  ~CheckpointStager();
  CheckpointStager(const CheckpointStager&) = delete;
  CheckpointStager& operator=(const CheckpointStager&) = delete;

  void add(Job job);
  /// Wait until all jobs are handed over, however long writers take. Returns at once when a writer
  /// calls it.
  void drain();

 private:
  void run();

  std::function<void(CheckpointStaged)> hand_over_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;  // the front one is being worked on
  bool stopping_ = false;
  std::thread thread_;  // started by the first job
};

/// Return `checkpoint` as one that is handed over without a copy (Upload::None). Throws Failure
/// when no folder can be moved into this worker's storage.
Checkpoint to_be_moved(const Checkpoint& checkpoint, const WorkerInfo& info);
/// Put the files of `checkpoint`, if it is a directory, into the folder `to`. Throws Failure; then
/// `to` does not exist.
void stage_directory(const Checkpoint::Impl& checkpoint, const std::string& to);

}  // namespace train::sdk
