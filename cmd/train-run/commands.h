// The subcommands of train-run. Each prints its result and returns the exit code of the process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/exit_code_of.h"
#include "launcher/dashboard/dashboard.h"
#include "launcher/kubernetes/options.h"
#include "launcher/spec/job_flags.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/base/exit_code.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

struct JobOptions {
  std::string path;                    // empty: no file, `arguments` are the command
  std::vector<std::string> overrides;  // --set
  JobFlags flags = {};
  std::vector<SpecOverride> implied = {};                  // by other options
  std::optional<std::vector<std::string>> arguments = {};  // after "--"
  std::string program = {};  // what a run without a file is called after; empty: its command
  std::optional<std::string> hosts, hosts_file, ssh;
  std::string token_file, tls;
  bool no_slurm = false;
};
/// How the terminal shows workers' output.
struct OutputWords {
  std::optional<std::string> prefix;       // --log-line-prefix
  std::optional<std::string> local_ranks;  // --local-ranks-filter
  std::optional<std::string> redirects, tee;
  int lines_max = -1;  // --log-rate; −1: by default
  bool no_fold = false;
};
struct RunCommand {
  std::string output = "text";
  std::string log_format = "logfmt";  // or json
  OutputWords worker_output;
  bool separate_streams = false;  // see ScreenOptions::separate
  std::string events = "some";    // or all: see ScreenOptions::all_events
  int driver_fd = -1;
  std::string on_driver_exit = "stop";  // or leave
  int pace = 0;
  bool keep_workers = false;
  std::string workers_of = {};
  bool dry_run = false, print_config = false, force = false;
  bool detach = false;
  bool requeue = false;
  std::string member;                   // of what: "dns:mnist:7070"; empty: it is none
  std::string traind_options;           // words for its traind
  std::vector<std::string> words = {};  // the whole command line
  int with_parent = 0;  // a launcher ends with the member that has started it, of this pid
  std::string wait_for_debugger;  // the ranks that wait: "0-3,7" or "all"; empty: none
  std::string runtime_dir;        // of the traind that runs a detached run's controller
  bool detached = false;          // we are that controller
  bool restarted = false;         // in place of one that died
  std::string failover_of;        // the id of the run that we take over if its controller is gone
  bool failover_check = false;    // only say whether we could
  std::string failover_mark;      // PrepareFailover::storage_mark, for both
  std::string shared_daemon;      // the runtime folder of a sweep's traind, which its trials share
  std::string private_daemon;     // the runtime folder of the private traind that runs us
};
struct SweepCommand {
  std::string output = "text";
  bool preview = false;
  int more = 0;   // trials, of a sweep that there is
  int until = 0;  // the same as how many it is to have; said twice, it is one wish
  bool detach = false;
  std::string runtime_dir = {};     // of the traind that runs a detached sweep's controller
  bool detached = false;            // we are that controller
  bool restarted = false;           // in place of one that died
  std::string private_daemon = {};  // the runtime folder of the private traind that runs us
};
struct RunReference {
  std::string run;  // a folder, a name under storage_path, or a registered name
  std::string storage_path;
};
struct LogsCommand {
  std::string ranks;   // "0-3,7"; empty: all
  std::string stream;  // out or err; empty: both
  std::optional<std::string> grep, since;
  int attempt = -1, tail = -1;  // −1: the newest; all lines
  bool follow = false, merge = false, no_fold = false;
};

struct StacksCommand {
  std::string ranks;  // "0-3,7"; empty: all
  bool all_threads = false;
  bool json = false;
};

struct ProfileCommand {
  std::int32_t rank = 0;
  double seconds = 5;
  std::string kind = "cpu";  // or wall
  std::string file;          // -o: a copy, in the format that its ending says; empty: none
};

struct ExecCommand {
  std::string function;
  std::optional<std::string> argument;  // JSON
  std::vector<std::string> command;     // instead of a function; empty: none
  std::string ranks, timeout;           // "": all; the default
  bool json = false;
};

struct DebugCommand {
  int rank = -1;
  std::string debugger;                // a name or a path; empty: gdb, else lldb
  std::vector<std::string> arguments;  // of the debugger
  bool print = false;                  // the command, and do not run it
};

struct BundleCommand {
  std::string path;  // of the archive; empty: NAME-bundle-TIME.tar.gz in the current folder
  std::uint64_t bytes_max = 64u << 20;
};

/// data …: what all of them have, and what is of one.
struct DataCommand {
  JobOptions job;
  std::string dataset;  // empty: all
  std::string output = "text";
  int rows = 3;                   // inspect
  int workers = 8;                // plan; bench has 1
  std::int64_t batch_size = 256;  // plan, bench
  double seconds = 10;            // bench
};

/// data convert
struct ConvertCommand {
  std::vector<std::string> sources;
  std::string to, folder;
  std::int64_t rows_per_file = 0;
  std::optional<std::int64_t> shuffle;  // the seed
  std::uint64_t window = 256u << 20;    // bytes
  // As the keys of a dataset in a spec.
  std::string format = "auto", filter, delimiter;
  std::vector<std::string> columns, schema;  // schema: COLUMN=TYPE
  std::int64_t limit = 0;
  int labels = 1;
  bool newlines_in_values = false, include_paths = false;
};

struct K8sCommand {
  JobOptions job;  // the file and --set
  KubernetesOptions options;
  std::string kind = "job";
};

struct CheckpointCommand {
  std::string which;  // a name, a number, latest or best; empty: up to the command
  std::string dir;
  int last = 0;  // 0: all
};

/// Return the arguments that tell another train-run the same.
std::vector<std::string> words_of(const OutputWords& output);
/// Print to stderr what went wrong, and what to do about it.
void print_error(const Error& error);
/// Return the folder of the run that the reference names. NotFound says where we looked for it.
Result<std::string> path_of(const RunReference& reference);

/// Print what the nodes of the job's cluster have and do. Return 69 if one does not answer.
int nodes_command(const JobOptions& job, Duration limit, bool json);
/// Print the runs that share the nodes of the job's cluster, and those that wait for them. Return
/// 69 if a node does not answer.
int queue_command(const JobOptions& job, Duration limit, bool json);
/// Check whether the job could run on its nodes, and print what to do if not. Return 69 then.
int check_command(const JobOptions& job, Duration limit, bool json);
int run_command(const JobOptions& job, const RunCommand& options);
/// Search over parameters, as the spec's section sweep says.
int sweep_command(const JobOptions& job, const SweepCommand& options);
/// Return the folder of the sweep that the reference names, if it is one. Its commands:
std::optional<std::string> sweep_of(const RunReference& reference);
int resume_sweep_command(const std::string& path, const SweepCommand& options);
int sweep_status_command(const std::string& path, bool json);
/// Follow a sweep until it ends. Return its exit code.
int attach_sweep_command(const std::string& path);
int stop_sweep_command(const std::string& path);
/// Run the replica groups of a job with backend torchft. `source`: what `parsed` was parsed from.
int groups_command(const ParsedSpec& parsed, const SpecSource& source, const RunCommand& options);
/// For --dry-run: make the spec that of replica group 0, and print that it is one.
void show_as_one_group(JobSpec& spec);
/// Return the folder of the run with replica groups that the reference names, if it is one. Its
/// commands:
std::optional<std::string> groups_of(const RunReference& reference);
int resume_groups_command(const std::string& path, const RunCommand& options);
int groups_status_command(const std::string& path, bool json);
int stop_groups_command(const std::string& path);
/// Say on stderr that the run is group 0, and where the others are.
void say_which_group(const std::string& path);
/// Run what torchrun's own command line says: the words after "torchrun".
int torchrun_command(const std::vector<std::string>& words);
/// Write a first spec for a program, or for a torchrun command line, into a new file.
int init_command(const std::string& path, const std::vector<std::string>& words);
/// Print the objects with which Kubernetes runs a job, or a pool of nodes for many.
int k8s_command(K8sCommand k8s);
int validate_command(const JobOptions& job);
int schema_command();
int status_command(const RunReference& reference, bool json);
int logs_command(const RunReference& reference, const LogsCommand& options);
/// Follow a run from now on. Return the run's exit code, or 69 if its launcher died. `fold`:
/// identical lines of several ranks.
int attach_command(const RunReference& reference, bool fold);
/// Print where the workers of a running run are: the classes of equal stacks, or all threads.
int stacks_command(const RunReference& reference, const StacksCommand& options);
/// Have a profile of a rank taken, and print its hottest functions and where its files are.
int profile_command(const RunReference& reference, const ProfileCommand& options);
/// Call a function that the workers' programs serve, and print what they answer. Return 1 if a rank
/// has answered with an error.
int exec_command(const RunReference& reference, const ExecCommand& options);
/// Attach a debugger to the program of a rank, in place of this process; or print how to do that on
/// the rank's node.
int debug_command(const RunReference& reference, const DebugCommand& options);
/// Put what a bug report about the run needs into one archive.
int bundle_command(const RunReference& reference, const BundleCommand& options);
/// Serve runs to browsers until a signal comes.
int dashboard_command(DashboardOptions options);
/// Ask the run to stop, and wait for its end. Return 69 if its launcher died before that.
int stop_command(const RunReference& reference);
/// Resume a run. `overrides`: the --set options, for later attempts.
int resume_command(const RunReference& reference, const std::vector<std::string>& overrides,
                   const RunCommand& options);
/// Print what resume would continue from and return 0, or print why it would not and return 1.
int can_restore_command(const RunReference& reference);

/// Show what datasets of a spec have: columns, files, rows, problems.
int data_inspect_command(const DataCommand& options);
/// Show what each of some workers reads of a spec's datasets.
int data_plan_command(const DataCommand& options);

/// Read a spec's datasets for some time, and show how fast each operator was.
int data_bench_command(const DataCommand& options);
/// Write the rows of files anew, into files of another format.
int data_convert_command(const ConvertCommand& options);

// checkpoint …: these also work while the run is running, and on a folder that export or pull
// wrote.
int checkpoint_list_command(const RunReference& reference, bool json);
int checkpoint_verify_command(const RunReference& reference, const CheckpointCommand& options);
int checkpoint_export_command(const RunReference& reference, const CheckpointCommand& options);
int checkpoint_pull_command(const RunReference& reference, const CheckpointCommand& options);
/// Ask a running run for a checkpoint, wait until it is committed, and print its name. The run goes
/// on.
int checkpoint_now_command(const RunReference& reference);

}  // namespace train
