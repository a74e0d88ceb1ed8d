// The processes of a rank while a profile is taken: which threads live, how long each has run, and
// the samples that were taken of them, in batches. One thread uses it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/profile/sampling/sample_queue.h"
#include "lib/stacks/process_reader.h"

namespace train {

struct ProfiledProcess {
  pid_t pid = 0;
  std::string other_process{};  // its name if it is not the rank's program
};
/// Returns the processes that a rank has now.
using ListProcesses = std::function<std::vector<ProfiledProcess>()>;

/// Return how long a process has run, with threads that have ended. Nothing: it has ended.
std::optional<Duration> cpu_time_of(pid_t pid);
/// Note how much of the CPU time has no samples, if that is much. `with_kernel`: whether time in
/// the kernel has samples.
void note_unsampled_time(ProfileFacts& facts, std::uint64_t samples, bool with_kernel);

/// How often threads and processes are listed anew.
inline constexpr Duration kListEvery = milliseconds{100};

class ProfiledProcesses {
 public:
  struct Thread {
    std::string name{};
    std::uint64_t run_ns = 0;  // when we looked last
    std::uint64_t batch = 0;   // in which its newest sample is; 0: none
    std::size_t place = 0;     // there
    bool is_new = true;        // not looked at before
  };
  struct Process {
    Process(const ProfiledProcess& what, std::size_t stack_bytes_max);
    pid_t pid;
    std::string other_process;
    ProcessReader reader;
    std::map<pid_t, Thread> threads;
    std::uint64_t batch = 1;  // number of the current one
    SampleBatch samples{};
    std::size_t bytes = 0;  // of its stacks
    Duration cpu_first{0}, cpu_last{0};
  };

  ProfiledProcesses(ListProcesses list, SampleQueue& queue, std::size_t stack_bytes_max)
      : list_(std::move(list)), queue_(queue), stack_bytes_max_(stack_bytes_max) {}

  /// List processes and threads anew; those that have ended are dropped. Return false if none is
  /// left.
  bool update();
  std::map<pid_t, Process>& all() { return processes_; }
  /// Return how long a thread has run, in nanoseconds; nothing if it has ended.
  static std::optional<std::uint64_t> run_ns(pid_t pid, pid_t tid);

  /// Take a sample that stands for `samples`.
  void add(Process& process, ThreadCapture capture, std::uint32_t samples);
  /// Count the newest sample of a thread once more. Return false if its batch has gone.
  static bool repeat(Process& process, const Thread& thread, std::uint32_t samples);
  void flush();

  Duration cpu_time() const;
  std::uint64_t samples() const { return samples_; }  // that were taken
  std::uint64_t lost() const { return lost_; }        // of these

 private:
  void update_threads(Process& process) const;
  void flush(Process& process);

  ListProcesses list_;
  SampleQueue& queue_;
  std::size_t stack_bytes_max_;
  std::map<pid_t, Process> processes_;
  Duration cpu_of_ended_{0};
  std::uint64_t samples_ = 0, lost_ = 0;
};

}  // namespace train
