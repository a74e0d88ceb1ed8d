// What a worker's processes have used, as the kernel counts it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/model/fields.h"

namespace train {

/// A worker's process and those that it started, at one moment. Counters only grow, except when a
/// process ends that nobody waited for.
struct ProcessSample {
  std::int64_t pid = 0;  // of the program: the process that uses the SDK, else the busiest one
  /// The program's state: R running, S sleeping, D waiting for a disk, a network file system or a
  /// driver, T stopped by a signal, t held by a debugger, Z ended.
  std::string state = {};
  std::string waits_in = {};    // of D: the kernel function, if the kernel says it
  std::uint32_t processes = 0;  // 0: nothing is known
  std::uint32_t threads = 0;
  std::int64_t cpu_us = 0;       // used, also by processes that have ended
  std::int64_t cpu_wait_us = 0;  // the program's first thread was ready, but had no CPU
  std::int64_t resident_bytes = 0;
  std::int64_t read_bytes = 0;  // by read calls, from disk or not
  std::int64_t written_bytes = 0;
  std::int64_t context_switches = 0;  // of the program's first thread
  std::int64_t memory_limit = 0;      // bytes that the kernel holds the processes to; 0: none
  /// The call on a file, pipe or socket in which the program's first thread waits: "read of
  /// '/data/x' (nfs4 at /data)"; empty: another one, or not known.
  std::string waits_for = {};
  std::string cpus = {};  // that the program may use, as the kernel lists them: "0-3,8"
  bool operator==(const ProcessSample&) const = default;
  TRAIN_ARRAY(pid, state, waits_in, processes, threads, cpu_us, cpu_wait_us, resident_bytes,
              read_bytes, written_bytes, context_switches, memory_limit, waits_for, cpus)
};

}  // namespace train
