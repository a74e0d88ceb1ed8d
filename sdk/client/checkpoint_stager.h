// Checkpoints between report() and the supervisor, in the order of their reports: on a thread of
// its own it lets writers make their files, and hands each finished folder on. At most two are
// unsettled; then the next report with a checkpoint waits.
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

inline constexpr int kUnsettledCheckpointsMax =
    2;  // staged or being staged, no CheckpointOutcome yet: bounds the staging disk

class CheckpointStager {
 public:
  struct Job {
    CheckpointStaged staged;  // `dir`: where the files are, or shall be written
    std::function<void(const std::filesystem::path&)> write;  // empty: the files are there
  };
  /// `hand_over` is called on the stager's thread, in order; the job's error is set when its writer
  /// threw.
  explicit CheckpointStager(std::function<void(CheckpointStaged)> hand_over)
      : hand_over_(std::move(hand_over)) {}
  ~CheckpointStager();
  CheckpointStager(const CheckpointStager&) = delete;
  CheckpointStager& operator=(const CheckpointStager&) = delete;

  void add(Job job);
  /// Wait until all jobs are handed over, however long writers take. Not from within a writer:
  /// returns at once there.
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

/// `checkpoint`, to be handed over without a copy (Upload::None). Throws Failure where this
/// worker's storage is nothing that a folder can be moved into.
Checkpoint to_be_moved(const Checkpoint& checkpoint, const WorkerInfo& info);
/// Put the files of `checkpoint`, where it is a directory, into the folder `to`. Throws Failure;
/// then `to` is not there.
void stage_directory(const Checkpoint::Impl& checkpoint, const std::string& to);

}  // namespace train::sdk
