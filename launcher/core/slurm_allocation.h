// What the environment of a Slurm job says of its allocation, and the command that starts a traind
// on each of its nodes. Pure. Whoever submits the job may have set these variables to anything.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

inline constexpr std::size_t kSlurmNodesMax = 16'384;
inline constexpr int kSlurmCpusMax = 65'536;  // of a node

struct SlurmAllocation {
  std::string job_id;
  std::vector<std::string> nodes;  // in Slurm's order
  int cpus = 1;                    // of the node that has the fewest
  /// GPUs of a node, if the job asked for them per task: a step would get those of one task. 0: the
  /// step gets all that the job has.
  int gpus_per_node = 0;
  bool on_node = false;                  // we run on one of its nodes, not where salloc was called
  std::optional<std::int64_t> end = {};  // seconds since 1970
  std::optional<std::string> step_task = {};  // "3 of 8": we are one of several tasks of a step
};

using EnvironmentMap = std::map<std::string, std::string>;

/// Return the allocation, or nothing outside a Slurm job. InvalidArgument, naming the variable: its
/// value makes no sense.
Result<std::optional<SlurmAllocation>> read_slurm_allocation(const EnvironmentMap& environment);

/// Return the names of "n[1-3,07-12],x5", in order. Several brackets in a name count like the
/// digits of a number. InvalidArgument for anything else, and beyond kSlurmNodesMax.
Result<std::vector<std::string>> parse_node_list(std::string_view text);
/// Return the least number of "4(x2),3". InvalidArgument if there is none.
Result<int> fewest_in(std::string_view counts);

/// Return the arguments of srun, without its own name: one traind on each node, whose stdin is ours
/// and whose stdout comes to us.
std::vector<std::string> srun_arguments(const SlurmAllocation& allocation,
                                        const std::string& traind);
/// Return the environment of srun, and so of the daemons: ours, without what would give the step
/// another shape, and without our own variables and what looks like a secret. Workers get theirs
/// over TLS.
EnvironmentMap srun_environment(const EnvironmentMap& environment);

/// Return whether the variable tells a process which task of a Slurm step, or which process of an
/// MPI job, it is. Our workers are neither. What it says of the job stays.
bool is_of_slurm_task(std::string_view variable);

/// A traind that has come up: the line that it prints for --announce.
struct Announcement {
  std::string name;      // of the node
  std::string endpoint;  // HOST:PORT
};
/// Return the announcement in a line of srun's stdout; nothing if it is something else, such as
/// what a shell's start file prints.
std::optional<Announcement> parse_announcement(std::string_view line);

/// Return how long a job still has, as squeue's %L says it: "1-02:03:04", "10:00". Nothing if it
/// has no limit, or if the text says nothing.
std::optional<std::int64_t> seconds_left_in(std::string_view text);

}  // namespace train
