// The subcommands of train-run. Each prints, and returns the exit code of the process.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct JobOptions {
  std::string path;
  std::vector<std::string> overrides;  // --set
  std::string hosts, hosts_file, token_file, tls;
};
struct RunCommand {
  std::string output = "text";
  std::string log_format = "logfmt";  // or json
  bool dry_run = false, print_config = false, force = false;
  bool detach = false;
  std::string runtime_dir;     // of the traind that keeps a detached run's controller
  bool detached = false;       // we are that controller
  std::string private_daemon;  // the runtime folder of a private traind that keeps us
};
struct RunReference {
  std::string run;  // a folder, a name under storage_path, or a registered name
  std::string storage_path;
};
struct LogsCommand {
  int rank = -1, attempt = -1;  // −1: all, the newest
  bool follow = false;
};

struct CheckpointCommand {
  std::string which;  // a name, a number, latest or best; empty: see the command
  std::string dir;
  int last = 0;  // 0: all
};

/// What went wrong, and what to do, on stderr.
void print_error(const Error& error);
/// The folder that is meant; NotFound says where it was looked for.
Result<std::string> path_of(const RunReference& reference);

int run_command(const JobOptions& job, const RunCommand& options);
int validate_command(const JobOptions& job);
int schema_command();
int status_command(const RunReference& reference, bool json);
int logs_command(const RunReference& reference, const LogsCommand& options);
/// Follow a run from now on; its exit code, 69 where its launcher died.
int attach_command(const RunReference& reference);
int stop_command(const RunReference& reference);
/// `overrides`: --set, for the attempts to come.
int resume_command(const RunReference& reference, const std::vector<std::string>& overrides,
                   const RunCommand& options);
/// 0 and what resume would go on with, or 1 and why it would not.
int can_restore_command(const RunReference& reference);

// checkpoint …: the run may be running; also of a folder that export or pull wrote
int checkpoint_list_command(const RunReference& reference, bool json);
int checkpoint_verify_command(const RunReference& reference, const CheckpointCommand& options);
int checkpoint_export_command(const RunReference& reference, const CheckpointCommand& options);
int checkpoint_pull_command(const RunReference& reference, const CheckpointCommand& options);

}  // namespace train
