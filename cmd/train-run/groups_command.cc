// What run does with replica groups (backend: torchft), and status, stop and resume with their run.
#include <fmt/format.h>
#include <sys/stat.h>

#include <boost/json.hpp>
#include <filesystem>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/options.h"
#include "cmd/train-run/parent_folder.h"
#include "cmd/train-run/parse_job.h"
#include "cmd/train-run/run_life.h"
#include "cmd/train-run/run_so_far.h"
#include "cmd/train-run/this_node.h"
#include "launcher/cluster/groups/groups_driver.h"
#include "launcher/cluster/groups/groups_folder.h"
#include "launcher/cluster/groups/lighthouse_command.h"
#include "launcher/cluster/links/node_source.h"
#include "launcher/core/runs_at_once.h"
#include "launcher/report/text_table.h"
#include "launcher/spec/secrets.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/print.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_lock.h"

namespace train {
namespace {

constexpr Duration kFindLimit = seconds(10);  // for the nodes

/// Check that no option asks for what a run with groups cannot do. Return an exit code; 0: none.
int check_options(const RunCommand& options) {
  std::string option;
  if (options.detach) option = "--detach";
  if (options.driver_fd >= 0) option = "--driver-fd";
  if (options.requeue) option = "--requeue";
  if (options.force) option = "--force";
  if (!options.wait_for_debugger.empty()) option = "--wait-for-debugger";
  if (options.events == "all") option = "--events all";
  if (option.empty()) return 0;
  print_error({Errc::InvalidArgument,
               fmt::format("{} cannot be used with backend: torchft, whose groups are runs of "
                           "their own",
                           option),
               "leave it out"});
  return exit_code::kUsage;
}

/// Check that all groups have room at the same time. Return an exit code; 0: they have.
int check_room(const JobSpec& spec) {
  if (spec.cluster.names_nodes()) return 0;
  JobSpec smallest = spec;
  WorkerCount& count = smallest.scaling_config.num_workers;
  count.max = count.min;
  const Resources& each = spec.scaling_config.resources_per_worker;
  if (each.cpu <= 0 && each.gpu <= 0 && each.memory_bytes == 0) return 0;
  const int fit = runs_at_once(smallest, this_node()), groups = spec.backend_config.replica_groups;
  if (fit >= groups) return 0;
  print_error(
      {Errc::InvalidArgument,
       fmt::format("{} replica groups with {} {} each do not fit on this machine at once: {} {}",
                   groups, count.min, count.min == 1 ? "worker" : "workers", fit,
                   fit == 1 ? "does" : "do"),
       "let workers claim less (scaling_config.resources_per_worker), or name more nodes"});
  return exit_code::kUnavailable;
}

/// Fill in what the lighthouse needs. Return an exit code; 0: it can be started.
int find_lighthouse(GroupsOptions& options) {
  const JobSpec& spec = options.spec;
  if (spec.env.contains("TORCHFT_LIGHTHOUSE")) return 0;  // the user has one
  auto environment = spec::worker_environment(spec, submitters_environment());
  if (!environment) return failed(environment.error());
  options.environment = std::move(*environment);
  auto command = lighthouse_command(spec, options.environment);
  if (!command) {
    print_error(command.error());
    return exit_code::kUnavailable;
  }
  options.lighthouse = std::move(*command);
  auto cluster = with_found_nodes(spec.cluster, kFindLimit);
  auto host = cluster ? address_for_nodes(cluster->nodes) : Result<std::string>(cluster.error());
  if (!host) {
    print_error(host.error());
    return exit_code::kUnavailable;
  }
  options.lighthouse_host = std::move(*host);
  return 0;
}

int run_groups_in(const ParsedSpec& parsed, const std::string& folder, const RunCommand& options,
                  GroupsOptions groups) {
  const JobSpec& spec = parsed.spec;
  groups.folder = folder;
  groups.name = std::filesystem::path(folder).filename().string();
  groups.program = own_program();
  groups.own_daemon = !spec.cluster.names_nodes();
  groups.variables = variables_of_no_option();
  groups.output_words = words_of(options.worker_output);
  groups.output = output_mode(options.output);
  return run_groups(groups);
}

std::optional<ParsedSpec> stored_groups(const GroupsFolder& folder) {
  SpecSource source;
  JobOptions job;
  job.path = folder.resolved_spec();
  return parse_job(job, &source);
}

/// What is known of a group.
struct GroupRow {
  std::string state;
  RunSoFar view;
  std::optional<int> code;
  std::string cause;
};

GroupRow row_of(const GroupsFolder& folder, int group) {
  const RunFolder run(folder.group(group));
  std::error_code ec;
  if (!std::filesystem::exists(run.journal(), ec))
    return {.state = "not started", .view = {}, .code = {}, .cause = {}};
  GroupRow row{.state = {}, .view = run_so_far(run), .code = {}, .cause = {}};
  const boost::json::object exit = read_json(run.exit_json());
  if (const auto* code = exit.if_contains("code"); code != nullptr && code->is_int64())
    row.code = static_cast<int>(code->as_int64());
  if (const auto* cause = exit.if_contains("cause"); cause != nullptr && cause->is_string())
    row.cause = cause->as_string();
  row.state = row.code || is_running(run) ? row.view.state : "interrupted";
  return row;
}

std::string metrics_text(const RunSoFar& view) {
  std::string text;
  if (!view.report) return text;
  for (const auto& [name, value] : view.report->metrics)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, metric_text(value));
  return text;
}

std::string state_text(const GroupsFolder& folder, bool running, const boost::json::object& exit) {
  if (running) return running_text(folder.lock());
  const auto* code = exit.if_contains("code");
  const auto* cause = exit.if_contains("cause");
  if (code == nullptr)
    return fmt::format("interrupted: go on with train-run resume {}", shell_word(folder.path()));
  const std::string why =
      cause != nullptr && cause->is_string() ? std::string(cause->as_string()) : "";
  return fmt::format("ended, exit code {}{}{}", boost::json::serialize(*code),
                     why.empty() ? "" : ": ", why);
}

}  // namespace

std::optional<std::string> groups_of(const RunReference& reference) {
  return find_groups(reference.run, reference.storage_path.empty()
                                        ? home_folder() + "/train_results"
                                        : reference.storage_path);
}

int groups_command(const ParsedSpec& parsed, const SpecSource& source, const RunCommand& options) {
  const JobSpec& spec = parsed.spec;
  if (const int code = check_options(options); code != 0) return code;
  for (const std::string& warning : parsed.warnings) print_err("{}\n", Lines{warning});
  if (const int code = check_parent_place(spec, "a run with replica groups"); code != 0)
    return code;
  if (const int code = check_room(spec); code != 0) return code;
  GroupsOptions groups{.folder = {}, .name = {}, .spec = spec, .program = {}};
  if (const int code = find_lighthouse(groups); code != 0) return code;
  ::umask(static_cast<mode_t>(spec.run_config.umask.bits));
  std::string folder;
  if (const int code = make_parent_folder(parsed, source, folder); code != 0) return code;
  // From here on it can be resumed.
  const BackendConfig& config = spec.backend_config;
  if (const auto noted = write_note(
          GroupsFolder(folder),
          {.groups = config.replica_groups, .min_groups = config.min_replicas, .lighthouse = {}});
      !noted)
    return failed(noted.error());
  return run_groups_in(parsed, folder, options, std::move(groups));
}

int resume_groups_command(const std::string& path, const RunCommand& options) {
  const GroupsFolder folder(path);
  if (const int code = check_options(options); code != 0) return code;
  const auto parsed = stored_groups(folder);
  if (!parsed) return exit_code::kBadSpec;
  const boost::json::object before = read_json(folder.exit_json());
  const auto* code_before = before.if_contains("code");
  if (code_before != nullptr && *code_before == exit_code::kOk) {
    print_error({Errc::AlreadyExists, fmt::format("the run {} has finished", path)});
    return exit_code::kTaken;
  }
  if (const int code = check_parent_place(parsed->spec, "a run with replica groups"); code != 0)
    return code;
  GroupsOptions groups{.folder = {}, .name = {}, .spec = parsed->spec, .program = {}};
  if (const int code = find_lighthouse(groups); code != 0) return code;
  ::umask(static_cast<mode_t>(parsed->spec.run_config.umask.bits));
  return run_groups_in(*parsed, path, options, std::move(groups));
}

int groups_status_command(const std::string& path, bool json) {
  const GroupsFolder folder(path);
  const auto note = read_note(folder);
  if (!note) return failed({Errc::Corrupt, folder.groups_json() + " cannot be read"});
  const auto held = is_held(folder.lock());
  const bool running = held && *held;
  const std::string name = std::filesystem::path(path).filename().string();
  const boost::json::object exit = read_json(folder.exit_json());
  std::vector<TableCells> lines{{"group", "state", "attempt", "restarts", "metrics"}};
  boost::json::array groups;
  for (int group = 0; group < note->groups; ++group) {
    const GroupRow row = row_of(folder, group);
    lines.push_back({std::to_string(group), row.state, std::to_string(row.view.attempt),
                     std::to_string(row.view.restarts),
                     row.cause.empty() ? metrics_text(row.view) : row.cause});
    boost::json::object one{{"group", group},
                            {"path", folder.group(group)},
                            {"state", row.state},
                            {"attempt", row.view.attempt},
                            {"restarts", row.view.restarts},
                            {"checkpoint", row.view.checkpoint},
                            {"cause", row.cause}};
    one["code"] = row.code ? boost::json::value(*row.code) : nullptr;
    groups.push_back(std::move(one));
  }
  if (json) {
    boost::json::object out{{"run", name},
                            {"path", path},
                            {"running", running},
                            {"state", running        ? "running"
                                      : exit.empty() ? "interrupted"
                                                     : "ended"},
                            {"min_replicas", note->min_groups},
                            {"lighthouse", note->lighthouse},
                            {"groups", std::move(groups)}};
    if (!running && !exit.empty()) out["exit"] = exit;
    print_json(boost::json::serialize(out));
    return 0;
  }
  print_out("run:        {}\nfolder:     {}\nstate:      {}\nlighthouse: {}\n\n{}", name, path,
            state_text(folder, running, exit),
            note->lighthouse.empty() ? "that of env.TORCHFT_LIGHTHOUSE" : note->lighthouse,
            Lines{table_text(lines)});
  return 0;
}

void show_as_one_group(JobSpec& spec) {
  const int groups = spec.backend_config.replica_groups;
  print_out("one of {} replica groups; the others have the same but for REPLICA_GROUP_ID\n",
            groups);
  spec.backend = Backend::Torch;
  spec.env.try_emplace("TORCHFT_LIGHTHOUSE", "(bound at start)");
  spec.env["REPLICA_GROUP_ID"] = "0";
  spec.env["NUM_REPLICA_GROUPS"] = std::to_string(groups);
}

void say_which_group(const std::string& path) {
  const GroupsFolder folder(path);
  const auto note = read_note(folder);
  if (!note || note->groups < 2) return;
  print_err("train-run: this is group 0 of {}; another one: train-run logs {}, in {}\n",
            note->groups, shell_word(path + "/1"), folder.group(1));
}

int stop_groups_command(const std::string& path) {
  const GroupsFolder folder(path);
  return stop_children(path, folder.lock(), folder.stop_request(), "replica groups");
}

}  // namespace train
