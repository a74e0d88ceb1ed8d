// What users of the dashboard have asked running runs for: stacks, profiles, a checkpoint, a stop.
// A task waits for the launcher's answer, which comes through the run's folder. Any thread may
// call; calls block on the disk.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/run/run_requests.h"
#include "launcher/dashboard/run_data.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

struct RunTask {
  std::string id, run, kind;           // kind: stacks, profile, checkpoint, stop
  std::string state = "running";       // or done, failed
  std::string began = {}, ended = {};  // RFC 3339
  std::vector<std::string> files = {};
  std::uint64_t checkpoint = 0;  // the number of the one that was asked for
  std::string error = {};
};

/// Add the task as an object (openapi.yaml).
void put_task(JsonWriter& json, const RunTask& task);

class RunTasks {
 public:
  static constexpr std::size_t kTasksMax = 256;           // older ones are forgotten
  static constexpr Duration kAnswerWithin = seconds(60);  // of a profile: after its last sample

  /// Ask for the stacks of these ranks; empty: of all. AlreadyExists while a task of the kind runs;
  /// Unavailable if nobody would answer.
  Result<RunTask> take_stacks(RunData& run, const std::vector<Rank>& ranks);
  /// Ask for a profile of a rank; as take_stacks().
  Result<RunTask> take_profile(RunData& run, const ProfileRequest& wanted);
  /// Ask for a checkpoint, after which the run goes on; as take_stacks().
  Result<RunTask> checkpoint(RunData& run);
  /// Ask the run to checkpoint and stop.
  Result<RunTask> stop(RunData& run);

  /// Look for answers to the run's tasks. Return the task; NotFound if there is none of this id.
  Result<RunTask> find(RunData& run, const std::string& id);
  /// Look for answers; return all tasks of the run, oldest first.
  std::vector<RunTask> all(RunData& run);

 private:
  struct Entry {
    RunTask task;
    TimePoint until;
    std::optional<PendingRequest> request;
  };
  static constexpr Duration kCheckpointWithin = seconds(630);  // its launcher waits 10 min
  Result<Unit> check(RunData& run, std::string_view kind);
  RunTask add(RunData& run, std::string kind, std::optional<PendingRequest> request,
              Duration within = kAnswerWithin);
  void look(RunData& run);

  std::mutex mutex_;
  std::uint64_t next_ = 1;
  std::deque<std::unique_ptr<Entry>> entries_;
};

}  // namespace train
