// train-run: runs a job, and inspects runs. Each subcommand is declared once, with its action;
// `train-run job.yaml` is `train-run run job.yaml`.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <optional>

#include "cmd/build_info.h"
#include "cmd/parse_end.h"
#include "cmd/train-run/command_list.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/completion.h"
#include "cmd/train-run/data_options.h"
#include "launcher/cluster/run/detached_run.h"
#include "launcher/report/log_printer.h"
#include "lib/base/exit_code.h"
#include "lib/base/secrets.h"
#include "lib/storage/object_store.h"
#include "lib/yaml/nearest.h"

namespace {

bool takes_value(const CLI::App& command, const std::string& option) {
  const CLI::Option* known = command.get_option_no_throw(option);
  return known != nullptr && known->get_items_expected_min() > 0;
}

// `train-run job.yaml …` means `train-run run job.yaml …`, and so does `train-run -n 4 -- ./train`:
// if the first word is not a subcommand, it is the path of a job.
std::vector<std::string> with_command(const CLI::App& app, const CLI::App& run, int argc,
                                      char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  bool of_run = !words.empty();
  for (auto word = words.begin(); word != words.end(); ++word) {
    of_run = *word != "-h" && *word != "--help" && *word != "--version";
    if (!of_run) break;
    if (*word != "--" && word->starts_with("-")) {
      if (takes_value(run, *word) && word + 1 != words.end()) ++word;
      continue;
    }
    const auto named = [&](const CLI::App* command) { return command->get_name() == *word; };
    of_run = app.get_subcommands(named).empty();
    break;
  }
  if (of_run) words.insert(words.begin(), "run");
  return words;
}

/// Take the words after "--" off those of a job: a program with its arguments, or arguments for the
/// command of the spec.
std::optional<std::vector<std::string>> take_arguments(std::vector<std::string>& words) {
  if (words.empty() || (words[0] != "run" && words[0] != "validate" && words[0] != "sweep"))
    return std::nullopt;
  const auto end = std::find(words.begin(), words.end(), "--");
  if (end == words.end()) return std::nullopt;
  std::vector<std::string> arguments(end + 1, words.end());
  words.erase(end, words.end());
  return arguments;
}

using Words = std::vector<std::string>;

/// Take the words from `begin` on off the others.
Words take_words(Words& words, Words::iterator begin) {
  Words taken(begin, words.end());
  words.erase(begin, words.end());
  if (!taken.empty() && taken.front() == "--") taken.erase(taken.begin());
  return taken;
}

/// Return the first word behind the command that is neither an option nor the value of one.
Words::iterator first_positional(const CLI::App& command, Words& words) {
  auto word = words.begin() + 1;
  while (word != words.end() && *word != "--" && word->starts_with('-'))
    word += takes_value(command, *word) && word + 1 != words.end() ? 2 : 1;
  return word;
}

std::string did_you_mean(const std::string& word, const Words& names) {
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string_view near = train::yaml::nearest(word, known);
  return near.empty() ? "" : fmt::format("did you mean {}?", near);
}

/// Return what is wrong about a word that looks like the name of a command.
std::string unknown_command(const CLI::App& app, const Words& words) {
  if (words.size() < 2 || words[0] != "run") return "";
  const std::string& word = words[1];
  const bool may_be_a_path = word.find_first_of("./-") != std::string::npos;
  if (may_be_a_path || ::access(word.c_str(), F_OK) == 0) return "";
  Words names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  const std::string meant = did_you_mean(word, names);
  return meant.empty() ? "" : fmt::format("there is no command or file '{}': {}", word, meant);
}

/// Return what is wrong about an option that the command does not have, or about a second file of
/// `run`: arguments of the program stand behind "--".
std::string unknown_option(const CLI::App& app, const Words& words) {
  const CLI::App* command = &app;
  Words positionals;
  const auto of_program = [&] {
    const bool runs = command->get_name() == "run" || command->get_name() == "validate" ||
                      command->get_name() == "sweep";
    if (!runs || positionals.empty()) return std::string();
    const std::string& file = positionals.front();
    return file.ends_with(".py")
               ? fmt::format(
                     "to run a Python program, write train-run -n WORKERS -- python3 {} ...", file)
               : fmt::format("arguments of the program stand after --: train-run {} -- ...", file);
  };
  for (auto word = words.begin(); word != words.end(); ++word) {
    if (*word == "--") break;
    if (!word->starts_with("-") || word->size() < 2) {
      const auto named = [&](const CLI::App* one) { return one->get_name() == *word; };
      const auto below = command->get_subcommands(named);
      if (!below.empty()) {
        command = below.front();
      } else {
        if (const std::string hint = of_program(); !hint.empty())
          return fmt::format("'{}' is one word too many: {}", *word, hint);
        positionals.push_back(*word);
      }
      continue;
    }
    if (!word->starts_with("--")) {
      if (takes_value(*command, word->substr(0, 2)) && word->size() == 2 && word + 1 != words.end())
        ++word;
      continue;
    }
    const std::string name = word->substr(0, word->find('='));
    if (command->get_option_no_throw(name) != nullptr) {
      if (name == *word && takes_value(*command, name) && word + 1 != words.end()) ++word;
      continue;
    }
    Words names;
    for (const CLI::Option* option : command->get_options())
      for (const std::string& known : option->get_lnames())
        if (!option->get_group().empty()) names.push_back("--" + known);
    std::string hint = did_you_mean(name, names);
    if (hint.empty()) hint = of_program();
    return fmt::format("{}has no option {}{}{}",
                       command == &app ? "train-run " : command->get_name() + " ", name,
                       hint.empty() ? "" : ": ", hint);
  }
  return "";
}

/// Return what is wrong about the words, as far as CLI11 would say less.
std::string unknown_word(const CLI::App& app, const Words& words) {
  const std::string wrong = unknown_command(app, words);
  return wrong.empty() ? unknown_option(app, words) : wrong;
}

void check_job_is_given(const train::JobOptions& job) {
  if (!job.path.empty()) return;
  const bool set = std::any_of(job.overrides.begin(), job.overrides.end(),
                               [](const auto& text) { return text.starts_with("command="); });
  if (set && !job.arguments) return;
  if (!job.arguments) throw CLI::RequiredError("A job's YAML file, or -- and a program,");
  if (job.arguments->empty()) throw CLI::RequiredError("A program after --");
}

/// Return what is wrong if a command that consists of others is followed by a word that is none of
/// them; CLI11 would only ask for one.
std::string unknown_subcommand(const CLI::App& app, const std::vector<std::string>& words) {
  if (words.size() < 2 || words[1].starts_with('-')) return "";
  const auto all = [](const CLI::App*) { return true; };
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(all)) {
    if (command->get_name() != words[0]) continue;
    for (const CLI::App* one : command->get_subcommands(all)) names.push_back(one->get_name());
  }
  if (names.empty() || std::find(names.begin(), names.end(), words[1]) != names.end()) return "";
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string_view near = train::yaml::nearest(words[1], known);
  return fmt::format("{} has no command '{}': {}", words[0], words[1],
                     near.empty() ? fmt::format("write one of {}", fmt::join(names, ", "))
                                  : fmt::format("did you mean {}?", near));
}

bool has_option(const std::vector<std::string>& words, const std::string& name) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return word == name || word.starts_with(name + "=");
  });
}

void add_flags(CLI::App* command, train::JobFlags& flags) {
  command->add_option("-n,--num-workers", flags.num_workers,
                      "Workers: a number, or MIN:MAX (scaling_config.num_workers)");
  command->add_option("--gpus", flags.gpus, "GPUs of each worker; 0: none");
  command->add_option("--cpus", flags.cpus,
                      "Cores that each worker claims (default 1; 0: claim none)");
  command->add_option("--memory", flags.memory, "Memory that each worker claims, such as 16GiB");
  command->add_option("--max-failures", flags.max_failures,
                      "How many failures the run survives (default 0; -1: any number)");
  command->add_option("--name", flags.name, "The run's name");
  command->add_option("--storage", flags.storage,
                      "The folder of runs, or its URL (default ~/train_results)");
}

/// Add the options that say which nodes to use, and how to prove to them who we are.
void add_cluster_options(CLI::App* command, train::JobOptions& job) {
  command
      ->add_option("--set", job.overrides,
                   "KEY.PATH=VALUE: override a value of the spec; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--hosts", job.hosts,
                   "Daemons to use, HOST:PORT,HOST:PORT (instead of cluster.nodes)")
      ->envname("TRAINRUN_HOSTS");
  command->add_option("--hosts-file", job.hosts_file, "A file with one daemon's HOST:PORT per line")
      ->envname("TRAINRUN_HOSTS_FILE");
  command
      ->add_option("--ssh", job.ssh,
                   "Hosts to reach by ssh, USER@HOST,HOST; @FILE: a list of them; @job: those of "
                   "this job of PBS or LSF (in place of --hosts)")
      ->envname("TRAINRUN_SSH");
  command
      ->add_option("--token-file", job.token_file,
                   "The cluster's shared secret (instead of cluster.token_file)")
      ->envname("TRAINRUN_TOKEN_FILE");
  command
      ->add_option("--tls", job.tls,
                   "The folder of your certificate, in place of a token (instead of cluster.tls)")
      ->envname("TRAINRUN_TLS");
}

void add_job_options(CLI::App* command, train::JobOptions& job) {
  command
      ->add_option("job", job.path,
                   "The job's YAML file. Words after -- follow its command; without a file, they "
                   "are the program, and options say the rest: train-run -n 4 -- ./train --lr 0.1")
      ->option_text("[-- PROGRAM ARGUMENT...]");
  command->callback([&job] { check_job_is_given(job); });
  add_flags(command, job.flags);
  add_cluster_options(command, job);
  command->add_flag("--no-slurm", job.no_slurm,
                    "In a Slurm job: do not start daemons on its nodes (cluster.slurm=never)");
}

void add_log_option(CLI::App* command, std::string& format) {
  command
      ->add_option("--log-format", format,
                   "Format of train-run.log in the run's folder: logfmt or json (default logfmt)")
      ->check(CLI::IsMember({"logfmt", "json"}))
      ->envname("TRAINRUN_LOG_FORMAT");
}

void add_fold_option(CLI::App* command, bool& no_fold) {
  command
      ->add_flag("--no-fold", no_fold,
                 "Show identical lines of several ranks one by one, not as one line [0-3]")
      ->envname("TRAINRUN_NO_FOLD");
}

void add_worker_output_options(CLI::App* command, train::OutputWords& output) {
  command
      ->add_option("--log-line-prefix,--log-line-prefix-template", output.prefix,
                   "What stands before each line of workers' output on the terminal, such as "
                   "'[${rank}]: '; also ${local_rank}, ${node}, ${attempt}, ${run}")
      ->envname("TRAINRUN_LOG_LINE_PREFIX");
  command
      ->add_option("--local-ranks-filter", output.local_ranks,
                   "Show only the output of these local ranks (0,2-3); files keep all")
      ->envname("TRAINRUN_LOCAL_RANKS_FILTER");
  command
      ->add_option("-r,--redirects", output.redirects,
                   "Streams that only the files show, as torchrun has it: 1 stdout, 2 stderr, 3 "
                   "both; or by local rank, 0:1,2:3")
      ->envname("TRAINRUN_REDIRECTS");
  command
      ->add_option("-t,--tee", output.tee,
                   "Streams that the terminal shows all the same (without --redirects: all)")
      ->envname("TRAINRUN_TEE");
  command
      ->add_option("--log-rate", output.lines_max,
                   "Show at most so many lines a second of each rank, and count the rest; 0: all "
                   "(default 1000 on a terminal, else 0)")
      ->check(CLI::Range(0, 1'000'000))
      ->envname("TRAINRUN_LOG_RATE");
  add_fold_option(command, output.no_fold);
}

void add_logs_options(CLI::App* command, train::LogsCommand& logs) {
  command->add_option("--rank", logs.ranks, "Only these ranks, such as 3 or 0-3,7");
  command->add_option("--attempt", logs.attempt, "This attempt (default: the newest)");
  command->add_option("--stream", logs.stream, "Only stdout (out) or stderr (err)")
      ->check(CLI::IsMember({"out", "err"}));
  command->add_option("--grep", logs.grep,
                      "Only lines that match this regular expression (RE2 syntax; (?i) ignores "
                      "case)");
  command->add_option("--since", logs.since,
                      "Only lines that arrived in the last 5m, 1h30m, …, or since a time, such as "
                      "2026-11-26T10:00");
  command
      ->add_option("--tail", logs.tail,
                   "Only the last N lines of each stream; with --merge, of all together")
      ->check(CLI::Range(0, static_cast<int>(train::LogPrinter::kTailMax)));
  command->add_flag("-f,--follow", logs.follow, "Keep printing until the run ends");
  command->add_flag("--merge", logs.merge,
                    "Print the lines of all ranks in order of time, identical ones as one");
  add_fold_option(command, logs.no_fold);
}

void add_profile_options(CLI::App* command, train::ProfileCommand& profile) {
  command->add_option("--rank", profile.rank, "The rank")
      ->required()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--seconds", profile.seconds, "How long (default 5, at most 60)")
      ->check(CLI::Range(0.01, 60.0));
  command
      ->add_option("--kind", profile.kind,
                   "cpu: where it uses a processor (default); wall: where its threads are, also "
                   "where they wait; memory: where it allocates memory, and what is not freed")
      ->check(CLI::IsMember({"cpu", "wall", "memory"}));
  command->add_option("-o", profile.file,
                      "Copy the profile to this file, whose ending says the format: .html, "
                      ".speedscope.json, .folded or .txt");
}

void add_dashboard_options(CLI::App* command, train::DashboardOptions& dashboard) {
  command->add_option("places", dashboard.places,
                      "Runs, folders with runs, or URLs of runs in object stores (default "
                      "~/train_results)");
  command
      ->add_option("--listen", dashboard.listen,
                   "HOST:PORT (default 127.0.0.1:7080; port 0: any that is free)")
      ->envname("TRAINRUN_DASHBOARD_LISTEN");
  command->add_option("--tls-cert", dashboard.tls_certificate,
                      "Certificate in PEM, with its chain; needed if other machines are to reach "
                      "it");
  command->add_option("--tls-key", dashboard.tls_key, "The certificate's key in PEM");
  command->add_option("--token-file", dashboard.token_file,
                      "The token, instead of a new one at each start (traind token makes a file)");
  command
      ->add_option("--host", dashboard.hosts,
                   "One more name by which browsers reach it; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--node-metrics-port", dashboard.node_metrics_port,
                   "The port of traind --metrics-listen on the nodes: /api/v1/sd lists them")
      ->check(CLI::Range(1, 65535));
  command->add_flag("--open-read", dashboard.open_read,
                    "Let everybody who reaches it read, without the token");
  command->add_flag("--allow-actions", dashboard.allow_actions,
                    "Allow actions on your runs: stop, checkpoint, stacks, profiles");
}

void add_driver_options(CLI::App* command, train::RunCommand& run) {
  command
      ->add_option("--events", run.events,
                   "all: stdout shows each event of the run as a line of JSON, and how far "
                   "metrics.jsonl has come (docs/driver.md); some: what --output says (default)")
      ->check(CLI::IsMember({"all", "some"}));
  command
      ->add_option("--driver-fd", run.driver_fd,
                   "A Unix socket, inherited from a program that follows and steers the run "
                   "(docs/driver.md)")
      ->check(CLI::Range(3, 1 << 20));
  command
      ->add_option("--on-driver-exit", run.on_driver_exit,
                   "When that program is gone: stop the run as SIGTERM does (default), or leave it "
                   "running")
      ->check(CLI::IsMember({"stop", "leave"}));
}

void add_debugger_option(CLI::App* command, std::string& ranks) {
  command
      ->add_flag("--wait-for-debugger{all}", ranks,
                 "These ranks (=0-3,7; without a value: all) wait in train::run() until a debugger "
                 "attaches: train-run debug RUN --rank N")
      ->envname("TRAINRUN_WAIT_FOR_DEBUGGER");
}

void add_requeue_option(CLI::App* command, train::RunCommand& run) {
  command->add_flag("--requeue", run.requeue,
                    "In a Slurm job: if the run stops with exit code 75, have Slurm start the job "
                    "again (scontrol requeue)");
}

void add_detach_options(CLI::App* command, train::RunCommand& run) {
  command->add_flag(
      "--detach", run.detach,
      "Run in the background, under a traind of this machine; return once the run has begun");
  command->add_option(
      "--runtime-dir", run.runtime_dir,
      "With --detach: the runtime folder of your own traind, instead of a private one");
  command->add_flag("--detached-controller", run.detached)->group("");
  command->add_flag(train::kRestartedOption, run.restarted)->group("");
  command->add_option("--private-daemon", run.private_daemon)->group("");
  command->add_option("--shared-daemon", run.shared_daemon)->group("");
}

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
  add_job_options(run_command, job);
  train::add_output_option(run_command, run.output);
  run_command->add_flag("--dry-run", run.dry_run,
                        "Print placement, command and environment of each rank, and stop");
  run_command->add_flag("--print-config", run.print_config,
                        "Print the resolved spec with the origin of each value, and stop");
  run_command->add_flag("--force", run.force, "Take the run over from another train-run");
  add_log_option(run_command, run.log_format);
  add_worker_output_options(run_command, run.worker_output);
  add_driver_options(run_command, run);
  add_debugger_option(run_command, run.wait_for_debugger);
  add_detach_options(run_command, run);
  add_requeue_option(run_command, run);

  add_job_options(
      commands.add(app, "validate", "Check a job's YAML, and report every mistake in it",
                   [&] { return train::validate_command(checked); }),
      checked);
  train::JobOptions swept;
  train::SweepCommand sweep;
  CLI::App* sweep_command =
      commands.add(app, "sweep", "Search over parameters: a run for each trial (section sweep)",
                   [&] { return train::sweep_command(swept, sweep); });
  add_job_options(sweep_command, swept);
  train::add_output_option(sweep_command, sweep.output);
  sweep_command->add_flag("--preview", sweep.preview,
                          "Print how many trials there will be, how long they will be trained, and "
                          "the values of the first ones, and stop");
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
  add_cluster_options(check, tried);
  check->add_option("--seconds", check_seconds, "How long to wait for each node (default 10)")
      ->check(CLI::Range(0.1, 600.0));
  train::add_output_option(check, check_output);
  CLI::App* nodes = commands.add(
      app, "nodes", "Show what each node has and does: free cores, GPUs, memory, load, troubles",
      [&] {
        return train::nodes_command(asked, duration_of(nodes_seconds), nodes_output == "json");
      });
  nodes->add_option("job", asked.path,
                    "A job's YAML file, whose cluster to ask (without one and without nodes: your "
                    "own traind here)");
  add_cluster_options(nodes, asked);
  nodes->add_option("--seconds", nodes_seconds, "How long to wait for each node (default 10)")
      ->check(CLI::Range(0.1, 600.0));
  train::add_output_option(nodes, nodes_output);
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
  add_logs_options(logs_command, logs);
  bool attach_no_fold = false;
  CLI::App* attach =
      commands.add(app, "attach", "Follow a run until it ends, and exit with its exit code",
                   [&] { return train::attach_command(reference, !attach_no_fold); });
  add_reference(attach);
  add_fold_option(attach, attach_no_fold);
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
  add_profile_options(profile_command, profile);
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
  add_dashboard_options(commands.add(app, "dashboard", "Show runs in a browser",
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
  add_log_option(resume, resumed.log_format);
  add_worker_output_options(resume, resumed.worker_output);
  add_driver_options(resume, resumed);
  add_debugger_option(resume, resumed.wait_for_debugger);
  resume->add_flag("--force", resumed.force, "Take the run over from another train-run");
  add_detach_options(resume, resumed);
  add_requeue_option(resume, resumed);
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
    std::vector<std::string> words = with_command(app, *run_command, argc, argv);
    job.arguments = checked.arguments = swept.arguments = take_arguments(words);
    if (!words.empty() && words[0] == "torchrun")
      torchrun_words = take_words(words, words.begin() + 1);
    if (!words.empty() && words[0] == "init")
      starter_words = take_words(words, first_positional(*init, words));
    if (const std::string wrong = unknown_word(app, words); !wrong.empty()) {
      train::print_error({train::Errc::InvalidArgument, wrong});
      return train::exit_code::kUsage;
    }
    if (const std::string wrong = unknown_subcommand(app, words); !wrong.empty()) {
      train::print_error({train::Errc::InvalidArgument, wrong});
      return train::exit_code::kUsage;
    }
    const bool file_is_given = has_option(words, "--hosts-file");
    if (file_is_given && !has_option(words, "--hosts")) ::unsetenv("TRAINRUN_HOSTS");
    if (file_is_given || has_option(words, "--hosts")) ::unsetenv("TRAINRUN_SSH");
    const bool token = has_option(words, "--token-file"), tls = has_option(words, "--tls");
    if (token && !tls) ::unsetenv("TRAINRUN_TLS");
    if (tls && !token) ::unsetenv("TRAINRUN_TOKEN_FILE");
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the end
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return train::end_of_parse(app, error, train::exit_code::kUsage);
  }
  return train::finish_output(commands.run());
}
