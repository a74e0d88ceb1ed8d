// train-run: runs a job, and inspects runs. Each subcommand is declared once, with its action;
// `train-run job.yaml` is `train-run run job.yaml`.
#include <fmt/format.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>

#include "cmd/build_info.h"
#include "cmd/parse_end.h"
#include "cmd/train-run/command_list.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/completion.h"
#include "cmd/train-run/data_options.h"
#include "cmd/train-run/options.h"
#include "cmd/train-run/words.h"
#include "launcher/cluster/run/detached_run.h"
#include "lib/base/exit_code.h"
#include "lib/base/secrets.h"
#include "lib/storage/object_store.h"

namespace {

std::string exit_codes_text() {
  std::string text = "Exit codes:";
  const auto add = [&text](std::string_view code, std::string_view meaning) {
    text += fmt::format("\n  {:<5}  {}", code, meaning);
  };
  for (const train::exit_code::Row& row : train::exit_code::kTable) {
    add(std::to_string(row.code), row.meaning);
    if (row.code == train::exit_code::kUsage)
      add("3-63", "the exit code of the first rank that failed");
  }
  add("128+N", "signal N killed the first rank that failed; 137 may also mean out of memory");
  return text;
}

}  // namespace

/// Closes the object stores at exit, so that no thread of theirs is left when statics are
/// destroyed.
struct ObjectStoresAtExit {
  ~ObjectStoresAtExit() { train::close_object_stores(); }
};

// Handle abort(), which TRAIN_CHECK or an uncaught exception calls: end with the exit code for a
// bug. 134 would look like a rank's.
void end_as_a_bug(int) { ::_exit(train::exit_code::kBug); }

int main(int argc, char** argv) {
  train::hold_standard_streams();
  train::learn_own_secrets();
  ::signal(SIGABRT, end_as_a_bug);
  const ObjectStoresAtExit stores;
  // glibc would raise this by itself, and then keep the memory that the lists of 10,000 nodes once
  // took.
  ::mallopt(M_MMAP_THRESHOLD, 128 << 10);
  CLI::App app{"Runs distributed training: train-run job.yaml", "train-run"};
  app.set_version_flag("--version", train::version_text("train-run"));
  app.require_subcommand(1);
  app.footer(exit_codes_text());

  // Commands share no variable of an option that the environment may set: CLI11 reads the
  // environment for the options of all commands, after it has read the words.
  train::JobOptions job, checked, asked, tried;
  train::RunCommand run, resumed;
  train::Commands commands;
  CLI::App* run_command = commands.add(app, "run", "Run a job (also: train-run job.yaml)",
                                       [&] { return train::run_command(job, run); });
  train::add_run_options(run_command, job, run);

  train::add_job_options(
      commands.add(app, "validate", "Check a job's YAML, and report every mistake in it",
                   [&] { return train::validate_command(checked); }),
      checked);
  train::JobOptions swept;
  train::SweepCommand sweep;
  CLI::App* sweep_command =
      commands.add(app, "sweep", "Search over parameters: a run for each trial (section sweep)",
                   [&] { return train::sweep_command(swept, sweep); });
  train::add_job_options(sweep_command, swept);
  train::add_output_option(sweep_command, sweep.output);
  train::add_detach_options(sweep_command, sweep);
  sweep_command->add_flag("--preview", sweep.preview,
                          "Print how many trials there will be, how long they will be trained, and "
                          "the values of the first ones, and stop");
  sweep_command
      ->add_option(
          "--more", sweep.more,
          "JOB is a sweep that there is, by name or folder: go on with it, and try so many "
          "trials in addition")
      ->check(CLI::Range(1, train::kTrialsMax));
  std::string nodes_output = "text", check_output = "text";
  double nodes_seconds = 10, check_seconds = 10;
  const auto duration_of = [](double seconds) {
    return std::chrono::duration_cast<train::Duration>(std::chrono::duration<double>(seconds));
  };
  CLI::App* check = commands.add(
      app, "check",
      "Check whether a job could run on its nodes: versions, disks, GPUs, clocks, ports, storage",
      [&] {
        return train::check_command(tried, duration_of(check_seconds), check_output == "json");
      });
  check->add_option("job", tried.path, "The job's YAML file (or --hosts, --ssh)");
  train::add_cluster_options(check, tried);
  check->add_option("--seconds", check_seconds, "How long to wait for each node (default 10)")
      ->check(CLI::Range(0.1, 600.0));
  train::add_output_option(check, check_output);
  CLI::App* nodes = commands.add(
      app, "nodes", "Show what each node has and does: free cores, GPUs, memory, load, troubles",
      [&] {
        return train::nodes_command(asked, duration_of(nodes_seconds), nodes_output == "json");
      });
  CLI::App* queue = commands.add(
      app, "queue", "Show the runs that share the nodes, and those that wait, in order", [&] {
        return train::queue_command(asked, duration_of(nodes_seconds), nodes_output == "json");
      });
  for (CLI::App* command : {nodes, queue}) {
    command->add_option("job", asked.path,
                        "A job's YAML file, whose cluster to ask (without one and without nodes: "
                        "your own traind here)");
    train::add_cluster_options(command, asked);
    command->add_option("--seconds", nodes_seconds, "How long to wait for each node (default 10)")
        ->check(CLI::Range(0.1, 600.0));
    train::add_output_option(command, nodes_output);
  }
  std::vector<std::string> torchrun_words;
  commands.add(app, "torchrun", "Run what torchrun's own command line says: torchrun --help",
               [&] { return train::torchrun_command(torchrun_words); });
  std::string starter_path = "job.yaml";
  std::vector<std::string> starter_words;
  CLI::App* init = commands.add(
      app, "init",
      "Write a first spec, with comments: for a program, a Python script (train.py), or a torchrun "
      "command line (torchrun ...), each with its arguments",
      [&] { return train::init_command(starter_path, starter_words); });
  init->add_option("-o,--file", starter_path, "The file to write, which must not exist")
      ->capture_default_str();
  init->add_option("program", starter_words, "The program and its arguments");
  train::K8sCommand k8s;
  train::add_k8s_options(
      commands.add(app, "k8s",
                   "Print the objects with which Kubernetes runs a job: train-run k8s job.yaml "
                   "--image IMAGE | kubectl apply -f -",
                   [&] { return train::k8s_command(k8s); }),
      k8s);
  commands.add(app, "schema", "Print the JSON Schema of the job's YAML, for editors",
               [] { return train::schema_command(); });

  train::RunReference reference;
  train::LogsCommand logs;
  std::string output = "text", list_output = "text";
  const auto add_reference = [&](CLI::App* command) {
    command->add_option("run", reference.run, "A run: its folder, or its name")->required();
    command->add_option("--storage-path", reference.storage_path,
                        "Where to look for a run given by name (default ~/train_results)");
  };
  CLI::App* status = commands.add(app, "status", "Show a running or a finished run", [&] {
    return train::status_command(reference, output == "json");
  });
  add_reference(status);
  train::add_output_option(status, output);
  CLI::App* logs_command = commands.add(app, "logs", "Print what workers printed",
                                        [&] { return train::logs_command(reference, logs); });
  add_reference(logs_command);
  train::add_logs_options(logs_command, logs);
  bool attach_no_fold = false;
  CLI::App* attach =
      commands.add(app, "attach", "Follow a run until it ends, and exit with its exit code",
                   [&] { return train::attach_command(reference, !attach_no_fold); });
  add_reference(attach);
  train::add_fold_option(attach, attach_no_fold);
  train::StacksCommand stacks;
  std::string stacks_output = "text";  // its own: each option reads its variable
  CLI::App* stacks_command =
      commands.add(app, "stacks", "Print where the workers of a run are now", [&] {
        stacks.json = stacks_output == "json";
        return train::stacks_command(reference, stacks);
      });
  add_reference(stacks_command);
  stacks_command->add_option("--rank", stacks.ranks, "Only these ranks, such as 3 or 0-3,7");
  stacks_command->add_flag(
      "--all-threads", stacks.all_threads,
      "Print every thread of every rank, not only what the ranks have in common");
  train::add_output_option(stacks_command, stacks_output);
  train::ProfileCommand profile;
  CLI::App* profile_command = commands.add(
      app, "profile", "Show where a rank spends its time or memory, and make a flame graph",
      [&] { return train::profile_command(reference, profile); });
  add_reference(profile_command);
  train::add_profile_options(profile_command, profile);
  train::ExecCommand exec;
  std::string exec_output = "text";
  CLI::App* exec_command = commands.add(
      app, "exec", "Call a function that the workers serve, or run a command beside them", [&] {
        exec.json = exec_output == "json";
        return train::exec_command(reference, exec);
      });
  add_reference(exec_command);
  train::add_exec_options(exec_command, exec);
  train::add_output_option(exec_command, exec_output);
  train::DebugCommand debug;
  CLI::App* debug_command =
      commands.add(app, "debug", "Attach a debugger to the program of a rank, where it runs",
                   [&] { return train::debug_command(reference, debug); });
  add_reference(debug_command);
  debug_command->add_option("--rank", debug.rank, "The rank")
      ->required()
      ->check(CLI::Range(0, 1 << 20));
  debug_command->add_option("--debugger", debug.debugger,
                            "The debugger, such as cuda-gdb (default gdb, else lldb)");
  debug_command->add_flag("--print", debug.print, "Print the command, and do not run it");
  debug_command->add_option("arguments", debug.arguments,
                            "After --: arguments of the debugger, such as -- -batch -ex bt");
  train::BundleCommand bundle;
  CLI::App* bundle_command =
      commands.add(app, "bundle",
                   "Put what a bug report about a run needs into one archive, without its secrets",
                   [&] { return train::bundle_command(reference, bundle); });
  add_reference(bundle_command);
  bundle_command->add_option(
      "-o,--archive", bundle.path,
      "The archive to write (default RUN-bundle-TIME.tar.gz in the current folder)");
  bundle_command
      ->add_option("--max-bytes", bundle.bytes_max,
                   "Take at most so much of the run's files, such as 8MiB (default 64MiB); of what "
                   "is longer, the beginning and the end")
      ->transform(CLI::AsSizeValue(false));
  train::DashboardOptions dashboard;
  train::add_dashboard_options(commands.add(app, "dashboard", "Show runs in a browser",
                                            [&] { return train::dashboard_command(dashboard); }),
                               dashboard);
  int stopped_trial = -1;
  CLI::App* stop =
      commands.add(app, "stop", "Ask a run, or all trials of a sweep, to checkpoint and stop", [&] {
        if (stopped_trial >= 0) reference.run += "/" + std::to_string(stopped_trial);
        return train::stop_command(reference);
      });
  add_reference(stop);
  stop->add_option("--trial", stopped_trial, "Of a sweep: only this trial; the sweep goes on")
      ->check(CLI::NonNegativeNumber);
  CLI::App* resume = commands.add(
      app, "resume",
      "Resume a run whose train-run has died: with its workers, or from its newest checkpoint",
      [&] { return train::resume_command(reference, job.overrides, resumed); });
  add_reference(resume);
  train::add_output_option(resume, resumed.output);
  resume
      ->add_option("--set", job.overrides,
                   "KEY.PATH=VALUE: change a value of the spec, once the run's workers have ended; "
                   "may be repeated")
      ->allow_extra_args(false);
  train::add_log_option(resume, resumed.log_format);
  train::add_worker_output_options(resume, resumed.worker_output);
  train::add_driver_options(resume, resumed);
  train::add_debugger_option(resume, resumed.wait_for_debugger);
  resume->add_flag("--force", resumed.force, "Take the run over from another train-run");
  train::add_detach_options(resume, resumed);
  train::add_requeue_option(resume, resumed);
  add_reference(
      commands.add(app, "can-restore",
                   "Print what resume would continue from; if it cannot, say why and exit with 1",
                   [&] { return train::can_restore_command(reference); }));
  train::DataOptions data;
  add_data_commands(commands, app, data);
  CLI::App* checkpoint =
      app.add_subcommand("checkpoint", "List, verify and copy checkpoints, or ask for one");
  checkpoint->require_subcommand(1);
  checkpoint->footer(
      "RUN may still be running, or be a folder written by export or pull.\n"
      "Exit codes: 0 done; 1 verify: not all are intact; 65 the checkpoint is damaged; 66 no such "
      "run or checkpoint;\n"
      "69 now: no checkpoint was made; 73 the folder is not empty; 74 reading or writing failed; "
      "77 permission; 130 Ctrl-C.");
  train::CheckpointCommand wanted;
  CLI::App* list = commands.add(
      *checkpoint, "list",
      "List the checkpoints of a run, oldest first, with the reason if one is unusable",
      [&] { return train::checkpoint_list_command(reference, list_output == "json"); });
  add_reference(list);
  train::add_output_option(list, list_output);
  CLI::App* verify = commands.add(
      *checkpoint, "verify",
      "Read every byte and report which checkpoints are intact; exit with 1 if any is not",
      [&] { return train::checkpoint_verify_command(reference, wanted); });
  add_reference(verify);
  verify->add_option("checkpoint", wanted.which,
                     "Only this one: its name, its number, latest or best");
  CLI::App* copy = commands.add(
      *checkpoint, "export",
      "Verify one while copying it into a folder: it appears there complete or not at all.\n"
      "To start a job from it, set resume_from_checkpoint: DIR",
      [&] { return train::checkpoint_export_command(reference, wanted); });
  add_reference(copy);
  copy->add_option("checkpoint", wanted.which, "Its name, its number, latest or best")
      ->option_text("(default latest)");
  copy->add_option("dir", wanted.dir, "A folder that does not exist yet, or is empty")
      ->option_text("REQUIRED");
  copy->callback([&] {  // the last word is the folder
    if (wanted.which.empty()) throw CLI::RequiredError("dir");
    if (wanted.dir.empty()) wanted.dir = std::exchange(wanted.which, "latest");
  });
  CLI::App* pull = commands.add(
      *checkpoint, "pull",
      "Copy all into DIR/checkpoints, newest first, verifying each. Existing ones are skipped and\n"
      "nothing is removed, so it can be interrupted and run again",
      [&] { return train::checkpoint_pull_command(reference, wanted); });
  add_reference(pull);
  pull->add_option("dir", wanted.dir, "The folder; created if missing")->required();
  add_reference(commands.add(
      *checkpoint, "now",
      "Ask a running run for a checkpoint, wait until it is committed, and print its name. All\n"
      "ranks make it at the same report or call, and go on training. The program must have set\n"
      "train::on_stop, or call train::checkpoint_requested()",
      [&] { return train::checkpoint_now_command(reference); }));
  pull->add_option("--last", wanted.last, "Only the newest N")->check(CLI::PositiveNumber);

  if (argc > 1 && std::string_view(argv[1]) == train::kCompleteCommand)
    return train::complete(app, {argv + 2, argv + argc});
  try {
    std::vector<std::string> words = train::with_command(app, *run_command, argc, argv);
    run.words = words;
    job.arguments = checked.arguments = swept.arguments = train::take_arguments(words);
    if (!words.empty() && words[0] == "exec")
      exec.command = train::take_words(words, std::find(words.begin(), words.end(), "--"));
    if (!words.empty() && words[0] == "torchrun")
      torchrun_words = train::take_words(words, words.begin() + 1);
    if (!words.empty() && words[0] == "init")
      starter_words = train::take_words(words, train::first_positional(*init, words));
    if (const std::string wrong = train::unknown_word(app, words); !wrong.empty()) {
      train::print_error({train::Errc::InvalidArgument, wrong});
      return train::exit_code::kUsage;
    }
    const bool file_is_given = train::has_option(words, "--hosts-file");
    if (file_is_given && !train::has_option(words, "--hosts")) ::unsetenv("TRAINRUN_HOSTS");
    if (file_is_given || train::has_option(words, "--hosts")) ::unsetenv("TRAINRUN_SSH");
    const bool token = train::has_option(words, "--token-file"),
               tls = train::has_option(words, "--tls");
    if (token && !tls) ::unsetenv("TRAINRUN_TLS");
    if (tls && !token) ::unsetenv("TRAINRUN_TOKEN_FILE");
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the end
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return train::end_of_parse(app, error, train::exit_code::kUsage);
  }
  return train::finish_output(commands.run());
}
