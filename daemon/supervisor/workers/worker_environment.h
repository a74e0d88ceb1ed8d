// Builds the environment of one worker: the job's, and what torchrun's users and our SDK expect.
// Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// What all workers of a role have in common on one node.
struct NodeEnvironment {
  const StartWorkers& start;
  Attempt attempt;
  std::string socket_path;
  std::vector<std::string> gpus;  // that the node has granted the role, in the order of local ranks
  double gpus_per_worker = 1;     // below 1: several workers share one
  const RoleProgram* role = nullptr;  // beside the one that trains; null: that one
};

/// For workers that run as another user than the submitter: replace the submitter's HOME, LOGNAME,
/// SHELL and USER by `own`, those of this process, and remove MAIL and the XDG folders. What the
/// job itself sets stays.
void use_account(StartWorkers& start, const std::map<std::string, std::string>& own);
/// The same for an environment of which a job sets nothing.
void use_account(std::map<std::string, std::string>& env,
                 const std::map<std::string, std::string>& own);
/// Return the variables of our own account (HOME, LOGNAME, SHELL, USER), as traind gave them to us.
std::map<std::string, std::string> account_environment();

struct WorkerEnvironmentInput {
  const WorkerRanks& ranks;
  std::string checkpoint_dir;
  std::string error_file;
  std::string network_interface;  // that other nodes reach; "": not known
  std::map<std::string, std::string> flight_variables = {};  // see flight_dumps.h
  int pmi_fd = -1;                                           // see backend_environment.h
};

/// Return torchrun's variables in full (RANK, WORLD_SIZE, LOCAL_RANK, …, TORCHELASTIC_*), the NODE
/// aliases, TRAINRUN_*, and, unless the job sets them itself, ROLE_NAME, TORCHELASTIC_RUN_ID,
/// OMP_NUM_THREADS (cores of a worker; not set for the only worker of a node that claims none),
/// TORCH_NCCL_ASYNC_ERROR_HANDLING, the places of NCCL's flight recorder, with several nodes
/// GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME, and the backend's own.
std::map<std::string, std::string> worker_environment(const NodeEnvironment& node,
                                                      const WorkerEnvironmentInput& input);

/// Return the text of the file that TRAINRUN_SPEC names for a program without a supervisor.
std::string spec_json(const JobContext& run);

/// Return the environment of standby process `number`: what libraries read when they are loaded.
/// Its Welcome provides the rest.
std::map<std::string, std::string> standby_environment(const NodeEnvironment& node, int number);

/// Return the environment of an ingest worker, called `name`, that claims `cpus`: the workers'
/// without a rank, peers or GPUs.
std::map<std::string, std::string> ingest_environment(const NodeEnvironment& node,
                                                      const std::string& name, double cpus);

/// Return the environment of the node's setup: the workers', without a rank, peers or a supervisor.
std::map<std::string, std::string> setup_environment(const NodeEnvironment& node);

/// Return the variables of `env` that `known` does not have, or has with another value.
std::map<std::string, std::string> not_in(std::map<std::string, std::string> env,
                                          const std::map<std::string, std::string>& known);

struct ValidationFiles {
  std::string checkpoint_dir;  // to be validated
  std::string result;          // for its metrics, a JSON object
  std::string error;           // as TORCHELASTIC_ERROR_FILE
  std::string spec;            // the job's config, metadata and datasets, as TRAINRUN_SPEC
};

/// Return the environment of a process that validates a checkpoint: the workers' environment
/// without a rank, peers or a supervisor, and, unless `use_gpu`, without their GPUs.
std::map<std::string, std::string> validation_environment(const NodeEnvironment& node,
                                                          const ValidationFiles& files,
                                                          bool use_gpu);

}  // namespace train
