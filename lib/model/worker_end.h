// How a worker ended, as observed by its supervisor.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/fields.h"
#include "lib/model/user_error.h"

namespace train {

struct MemoryLimit {        // of a worker that was killed for lack of memory
  std::uint64_t bytes = 0;  // 0: no limit but the machine's memory
  std::uint64_t used = 0;
  std::string owner = {};  // claim, slurm, pod, container, node, or a cgroup's path
  bool operator==(const MemoryLimit&) const = default;
  TRAIN_FIELDS(bytes, used, owner)
};

struct WorkerEnd {
  bool signaled = false;
  std::int32_t status = 0;  // exit code, or signal number
  bool core_dumped = false;
  bool oom_killed = false;                   // its cgroup counted an OOM kill
  bool stop_requested = false;               // it had been asked to stop
  std::int64_t wall_us = 0;                  // when it was reaped, by its node's clock
  std::vector<std::string> last_lines = {};  // of its output, oldest first
  std::optional<UserError> error = {};       // what user code threw
  std::uint64_t last_report_seq = 0;         // its last report in this attempt; 0: none
  MemoryLimit memory = {};                   // if oom_killed
  // The limit of processes and threads at which one was refused; 0: none was.
  std::uint64_t pids_limit_hit = 0;
  /// It had been told to leave its loop: by the step `finish` of a pause, or by should_stop().
  bool told_to_stop = false;
  /// Of a crash: "Model::forward (model.cc:41) <- main (main.cc:88)"; `error` has the stack.
  std::string crashed_in = {};
  /// The path of its core file, or the command that knows it; "": none was found.
  std::string core = {};
  bool clean() const { return !signaled && status == 0; }
  /// Return whether it came to its own end, and not because somebody asked.
  bool by_itself() const { return clean() && !stop_requested && !told_to_stop; }
  bool operator==(const WorkerEnd&) const = default;
  TRAIN_FIELDS(signaled, status, core_dumped, oom_killed, stop_requested, wall_us, last_lines,
               error, last_report_seq, memory, pids_limit_hit, told_to_stop, crashed_in, core)
};

}  // namespace train
