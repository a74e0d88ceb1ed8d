// The options that several subcommands have, or that are many. What they set must live until the
// command has run.
#pragma once

#include "cmd/train-run/command_list.h"
#include "cmd/train-run/commands.h"

namespace train {

/// Add the options that say which nodes to use, and how to prove to them who we are.
void add_cluster_options(CLI::App* command, JobOptions& job);

/// Add what a command takes that runs or checks a job: its file or its program, and the values that
/// options say.
void add_job_options(CLI::App* command, JobOptions& job);

void add_log_option(CLI::App* command, std::string& format);
void add_fold_option(CLI::App* command, bool& no_fold);
void add_worker_output_options(CLI::App* command, OutputWords& output);
void add_logs_options(CLI::App* command, LogsCommand& logs);
void add_exec_options(CLI::App* command, ExecCommand& exec);
void add_profile_options(CLI::App* command, ProfileCommand& profile);
void add_dashboard_options(CLI::App* command, DashboardOptions& dashboard);
void add_k8s_options(CLI::App* command, K8sCommand& k8s);
void add_driver_options(CLI::App* command, RunCommand& run);
void add_debugger_option(CLI::App* command, std::string& ranks);
void add_requeue_option(CLI::App* command, RunCommand& run);
void add_detach_options(CLI::App* command, RunCommand& run);
void add_detach_options(CLI::App* command, SweepCommand& sweep);
/// Add all options of `run`.
void add_run_options(CLI::App* command, JobOptions& job, RunCommand& run);
/// Return our environment, NAME=VALUE, without what stands for options of `run`: for a train-run
/// that we start, and that has all of them from us.
std::vector<std::string> variables_of_no_option();

}  // namespace train
