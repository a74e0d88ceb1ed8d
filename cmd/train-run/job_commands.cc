// run, resume, validate, schema: the commands that start from a job's YAML.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cmd/build_info.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/detach.h"
#include "cmd/train-run/dry_run.h"
#include "cmd/train-run/member.h"
#include "cmd/train-run/parse_job.h"
#include "cmd/train-run/solo.h"
#include "cmd/train-run/this_node.h"
#include "launcher/cluster/links/node_source.h"
#include "launcher/cluster/run/driver_port.h"
#include "launcher/cluster/run/run_job.h"
#include "launcher/cluster/run/run_record.h"
#include "launcher/cluster/run/run_takeover.h"
#include "launcher/cluster/run/slurm_job.h"
#include "launcher/core/ssh_hosts.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/print.h"
#include "lib/base/store_url.h"
#include "lib/base/text_file.h"
#include "lib/yaml/writer.h"

namespace train {
namespace {

constexpr Duration kFindLimit = seconds(10);  // of a dry run, for its nodes

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", &local);
  return text;
}

// Return a YAML list that the spec's own reader checks.
std::string as_list(const std::vector<std::string>& hosts) {
  std::string list;
  for (const std::string& host : hosts)
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", host);
  return "[" + list + "]";
}

/// Return a path of the command line for a spec, where a relative path would begin at the folder of
/// the spec. The spec's reader expands "~/".
std::string absolute_path(const std::string& path) {
  std::error_code ec;
  const std::string absolute = std::filesystem::absolute(path, ec).lexically_normal().string();
  return ec || path.starts_with('~') || is_object_url(path) ? path : absolute;
}

std::string path_value(const std::string& path) { return yaml::write_text(absolute_path(path)); }

std::vector<SpecOverride> flag_overrides(const JobOptions& job) {
  JobFlags flags = job.flags;
  if (flags.storage) flags.storage = absolute_path(*flags.storage);
  std::vector<SpecOverride> overrides = overrides_of(flags, !job.path.empty());
  overrides.insert(overrides.end(), job.implied.begin(), job.implied.end());
  return overrides;
}

Result<SpecSource> source_of(const JobOptions& job) {
  SpecSource source{.path = job.path,
                    .overrides = flag_overrides(job),
                    .arguments = job.arguments,
                    .environment = submitters_environment(),
                    .program = job.program,
                    .timestamp = timestamp(),
                    .home = home_folder(),
                    .current_dir = ""};
  source.overrides.insert(source.overrides.end(), job.overrides.begin(), job.overrides.end());
  TRY(const auto hosts, named_hosts(job));
  if (hosts)
    source.overrides.emplace_back("cluster.nodes=" + as_list(*hosts),
                                  job.ssh ? "--ssh" : "--hosts");
  else if (job.hosts_file)
    source.overrides.emplace_back("cluster.hosts_file=" + path_value(*job.hosts_file),
                                  "--hosts-file");
  if (!job.token_file.empty())
    source.overrides.emplace_back("cluster.token_file=" + path_value(job.token_file),
                                  "--token-file");
  if (!job.tls.empty())
    source.overrides.emplace_back("cluster.tls=" + path_value(job.tls), "--tls");
  if (job.no_slurm) source.overrides.emplace_back("cluster.slurm=never", "--no-slurm");
  return source;
}

/// Return how to show workers' output. The error names the option that is wrong.
Result<ScreenOptions> screen_options(const OutputWords& words, const std::string& run) {
  ScreenOptions screen{.fold = !words.no_fold};
  if (words.prefix) {
    TRY(screen.prefix, LinePrefix::parse(*words.prefix, run));
  }
  if (words.local_ranks) {
    auto ranks = RankSet::parse(*words.local_ranks);
    if (ranks.has_error()) return std::move(ranks).error().with_context("--local-ranks-filter");
    screen.local_ranks = std::move(*ranks);
  }
  const auto read_streams = [](const std::optional<std::string>& word, StreamChoice& streams,
                               const char* option) -> Result<Unit> {
    if (!word) return Unit{};
    auto read = StreamChoice::parse(*word);
    if (read.has_error()) return std::move(read).error().with_context(option);
    streams = std::move(*read);
    return Unit{};
  };
  TRY_VOID(read_streams(words.redirects, screen.redirects, "--redirects"));
  TRY_VOID(read_streams(words.tee, screen.tee, "--tee"));
  if (words.lines_max >= 0) screen.lines_max = static_cast<std::uint64_t>(words.lines_max);
  return screen;
}

/// Return whether nodes of the job may take over its controller: those that others reach, too, and
/// that see the run's folder.
bool can_fail_over(const JobSpec& spec) {
  const auto& nodes = spec.cluster.nodes;
  const bool by_ssh = std::any_of(nodes.begin(), nodes.end(), [](const std::string& node) {
    return node.starts_with(kSshPrefix);
  });
  return spec.run_config.failure_config.failover_nodes > 0 && spec.cluster.names_nodes() &&
         !by_ssh && !is_object_url(spec.run_config.storage_path);
}

/// Run a parsed job, here or detached. `words`: the arguments that tell a controller in the
/// background the same.
int run_parsed(ParsedSpec parsed, const std::string& spec_text,
               std::vector<std::string> changed_keys, bool unique_name, const RunCommand& options,
               std::vector<std::string> words) {
  if (parsed.spec.scaling_config.num_workers.none()) {
    print_error({Errc::InvalidArgument, "num_workers is 0, and a run that has begun needs workers",
                 "give another number, or leave it as it was"});
    return exit_code::kUsage;
  }
  RunOptions run{.parsed = std::move(parsed),
                 .spec_text = spec_text,
                 .unique_name = unique_name,
                 .force = options.force,
                 .changed_keys = std::move(changed_keys),
                 .detached = options.detached,
                 .restarted = options.restarted,
                 .requeue = options.requeue,
                 .private_daemon = options.private_daemon,
                 .shared_daemon = options.shared_daemon,
                 .output = options.detached ? OutputMode::Plain : output_mode(options.output),
                 .environment = submitters_environment(),
                 .build = kBuild,
                 .this_node = this_node};
  run.log_format = options.log_format == "json" ? LogFormat::Json : LogFormat::Logfmt;
  run.color = run.output == OutputMode::Live && std::getenv("NO_COLOR") == nullptr;
  auto screen = screen_options(options.worker_output, run.parsed.spec.run_config.name);
  if (!screen) {
    print_error(screen.error());
    return exit_code::kUsage;
  }
  run.screen = std::move(*screen);
  if (options.separate_streams && run.output != OutputMode::Json) {
    run.screen.separate = true;
    run.output = OutputMode::Plain;
    run.color = false;
  }
  if (options.events == "all") {
    run.screen.all_events = true;
    run.output = OutputMode::Json;
  }
  run.outlives_driver = options.on_driver_exit == "leave";
  if (options.driver_fd >= 0) {
    if (options.detach) {
      print_error({Errc::InvalidArgument,
                   "--driver-fd and --detach exclude each other: a detached run has no driver"});
      return exit_code::kUsage;
    }
    if (const auto checked = check_driver_socket(options.driver_fd); !checked) {
      print_error(checked.error());
      return exit_code::kUsage;
    }
    run.driver_fd = options.driver_fd;
    run.pace = options.pace;
    run.keeps_workers = options.keep_workers;
    run.workers_of = options.workers_of;
  }
  if (!options.wait_for_debugger.empty()) {
    const auto ranks = RankSet::parse(options.wait_for_debugger);
    if (options.wait_for_debugger != "all" && !ranks) {
      print_error(Error(ranks.error()).with_context("--wait-for-debugger"));
      return exit_code::kUsage;
    }
    run.wait_for_debugger = options.wait_for_debugger;
    add_options(words, {"--wait-for-debugger=" + options.wait_for_debugger});
  }
  if (options.detached && can_fail_over(run.parsed.spec)) {
    const RunConfig& config = run.parsed.spec.run_config;
    run.failover.arguments = words_to_resume(run_path(config.storage_path, config.name), options);
    add_options(run.failover.arguments, {"--detached-controller"});
    run.failover.env = run.environment;
  }
  if (!options.detach) return run_job(run);
  const auto slurm = slurm_job_of(run.parsed.spec, run.environment);
  if (slurm && *slurm && starts_daemons(run.parsed.spec, **slurm)) {
    print_error({Errc::InvalidArgument,
                 "a detached run would end with this Slurm job's script, as its daemons do",
                 "leave --detach out, or add --no-slurm"});
    return exit_code::kUsage;
  }
  add_options(words, words_of(options.worker_output));
  if (options.force) add_options(words, {"--force"});
  add_options(words, {"--log-format", options.log_format});
  return detach(run, words, options);
}

// Parse the resolved spec in the run's folder. It is the whole job: paths are absolute, secrets are
// references.
std::optional<ParsedSpec> parse_stored(const RunFolder& folder,
                                       const std::vector<std::string>& overrides) {
  SpecSource source;
  return parse_job(JobOptions{.path = folder.resolved_spec(),
                              .overrides = overrides,
                              .flags = {},
                              .arguments = {},
                              .hosts = {},
                              .hosts_file = {},
                              .ssh = {},
                              .token_file = "",
                              .tls = "",
                              .no_slurm = false},
                   &source);
}

std::vector<std::string> words_of(const JobOptions& job) {
  std::vector<std::string> words{"run"};
  if (!job.path.empty()) words.push_back(job.path);
  for (const SpecOverride& flag : flag_overrides(job))
    words.insert(words.end(), {"--set", flag.text});
  for (const std::string& text : job.overrides) words.insert(words.end(), {"--set", text});
  if (job.hosts) words.insert(words.end(), {"--hosts", *job.hosts});
  if (job.hosts_file) words.insert(words.end(), {"--hosts-file", *job.hosts_file});
  if (job.ssh) words.insert(words.end(), {"--ssh", *job.ssh});
  if (!job.token_file.empty()) words.insert(words.end(), {"--token-file", job.token_file});
  if (!job.tls.empty()) words.insert(words.end(), {"--tls", job.tls});
  if (job.no_slurm) words.emplace_back("--no-slurm");
  if (job.arguments) {
    words.push_back("--");
    words.insert(words.end(), job.arguments->begin(), job.arguments->end());
  }
  return words;
}

}  // namespace

OutputMode output_mode(const std::string& output) {
  if (output == "json") return OutputMode::Json;
  const char* term = std::getenv("TERM");
  const bool terminal =
      ::isatty(STDOUT_FILENO) != 0 && term != nullptr && std::string_view(term) != "dumb";
  return terminal && std::getenv("CI") == nullptr ? OutputMode::Live : OutputMode::Plain;
}

std::string own_program() {
  char path[PATH_MAX] = {};
  return ::readlink("/proc/self/exe", path, sizeof path - 1) > 0 ? path : "train-run";
}

std::map<std::string, std::string> submitters_environment() {
  std::map<std::string, std::string> env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const auto equals = text.find('='); equals != std::string::npos)
      env[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return env;
}

// Without a node, a run that shall run elsewhere would run on this machine.
namespace {

/// Return the list in a file, or in the variables of the batch job that we are in ("@job").
Result<std::vector<std::string>> listed_hosts(const std::string& place) {
  std::string path = place;
  if (place == "job") {
    TRY(const BatchHosts batch, hosts_of_batch_job(submitters_environment()));
    if (!batch.is_file) {
      auto hosts = parse_host_list(batch.value);
      return hosts ? std::move(hosts) : std::move(hosts).error().with_context(batch.variable);
    }
    path = batch.value;
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kHostListBytesMax + 1, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad())
    return Error{Errc::NotFound, fmt::format("the list of hosts '{}' cannot be read", path)};
  text.resize(static_cast<std::size_t>(file.gcount()));
  auto hosts = parse_host_list(text);
  if (!hosts) return std::move(hosts).error().with_context("the list of hosts " + path);
  return hosts;
}

/// Return the nodes that --ssh names.
Result<std::vector<std::string>> ssh_nodes(const std::string& words) {
  auto hosts = words.starts_with('@') ? listed_hosts(words.substr(1)) : parse_host_list(words);
  if (!hosts) return std::move(hosts).error().with_context("--ssh");
  for (std::string& host : *hosts) host.insert(0, kSshPrefix);
  return hosts;
}

}  // namespace

Result<std::optional<std::vector<std::string>>> named_hosts(const JobOptions& job) {
  if (job.ssh) {
    TRY(auto nodes, ssh_nodes(*job.ssh));
    return std::optional(std::move(nodes));
  }
  if (!job.hosts) return std::optional<std::vector<std::string>>();
  std::vector<std::string> hosts;
  std::istringstream stream(*job.hosts);
  for (std::string host; std::getline(stream, host, ',');)
    if (!host.empty()) hosts.push_back(host);
  if (!hosts.empty()) return std::optional(std::move(hosts));
  return Error{Errc::InvalidArgument, "--hosts or TRAINRUN_HOSTS names no daemon: write HOST:PORT"};
}

namespace {

/// Get SIGTERM when the process that has started us dies. Return false if it has died already.
bool ends_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  return ::getppid() == parent;
}

}  // namespace

std::optional<ParsedSpec> parse_job(const JobOptions& job, SpecSource* used) {
  auto source = source_of(job);
  if (!source) {
    print_error(source.error());
    return std::nullopt;
  }
  *used = std::move(*source);
  auto parsed = parse_job_spec(*used);
  if (const auto* mistakes = std::get_if<std::string>(&parsed)) {
    print_err("{}{}", Lines{*mistakes}, Lines{mistakes->ends_with('\n') ? "" : "\n"});
    return std::nullopt;
  }
  return std::move(std::get<ParsedSpec>(parsed));
}

std::vector<std::string> words_of(const OutputWords& output) {
  std::vector<std::string> words;
  if (output.prefix) words.push_back("--log-line-prefix=" + *output.prefix);
  if (output.local_ranks) words.push_back("--local-ranks-filter=" + *output.local_ranks);
  if (output.redirects) words.push_back("--redirects=" + *output.redirects);
  if (output.tee) words.push_back("--tee=" + *output.tee);
  if (output.lines_max >= 0) words.push_back(fmt::format("--log-rate={}", output.lines_max));
  if (output.no_fold) words.push_back("--no-fold");
  return words;
}

int run_command(const JobOptions& job, const RunCommand& options) {
  if (!options.member.empty()) return member_command(job, options);
  if (options.with_parent > 0 && !ends_with(options.with_parent)) return exit_code::kRequeue;
  SpecSource source;
  auto parsed = parse_job(job, &source);
  if (!parsed) return exit_code::kBadSpec;
  if (options.print_config) {
    print_out("{}", Lines{parsed->annotated_yaml});
    return 0;
  }
  if (parsed->spec.scaling_config.num_workers.none()) return run_solo(*parsed, source, options);
  if (options.dry_run) {
    const auto slurm = slurm_job_of(parsed->spec, source.environment);
    if (!slurm) {
      print_error(slurm.error());
      return exit_code::kUnavailable;
    }
    if (*slurm && starts_daemons(parsed->spec, **slurm))
      parsed->spec.cluster.nodes = (*slurm)->nodes;
    auto found = with_found_nodes(parsed->spec.cluster, kFindLimit);
    if (!found) {
      print_error(found.error());
      return exit_code::kUnavailable;
    }
    parsed->spec.cluster = std::move(*found);
    if (parsed->spec.backend == Backend::Torchft) show_as_one_group(parsed->spec);
    return dry_run(*parsed);
  }
  if (parsed->spec.backend == Backend::Torchft) return groups_command(*parsed, source, options);
  std::error_code ec;
  if (options.detach && !job.path.empty() && !std::filesystem::is_regular_file(job.path, ec)) {
    print_err(
        "train-run: error: '{}' is no regular file, so the controller of a detached run could "
        "not read it again\n",
        job.path);
    return exit_code::kUsage;
  }
  // The command that detached this controller chose the name.
  const bool unique_name =
      !options.detached && parsed->spec.run_config.name.ends_with(source.timestamp);
  const std::string text = parsed->text;
  // A child run begins with its parent's spec, of whose warnings the parent has told.
  if (std::filesystem::path(job.path).filename() == "spec.resolved.yaml") parsed->warnings.clear();
  return run_parsed(std::move(*parsed), text, {}, unique_name, options, words_of(job));
}

int validate_command(const JobOptions& job) {
  SpecSource source;
  const auto parsed = parse_job(job, &source);
  if (!parsed) return exit_code::kBadSpec;
  for (const std::string& warning : parsed->warnings) print_err("{}\n", Lines{warning});
  const ScalingConfig& scaling = parsed->spec.scaling_config;
  const WorkerCount& count = scaling.num_workers;
  print_out("{} is valid: {}\n", job.path.empty() ? "the command line" : job.path,
            count.none() ? "the program runs alone, in place of train-run"
            : count.automatic
                ? fmt::format("a worker for each {} of the nodes", scaling.use_gpu ? "GPU" : "core")
            : count.elastic() ? fmt::format("{} to {} workers", count.min, count.max)
                              : fmt::format("{} workers", count.max));
  return 0;
}

int schema_command() {
  print_out("{}\n", Lines{job_spec_schema_json()});
  return 0;
}

// Return the folder that the spec gives to its run if that is not this one, but another folder or
// none.
std::string place_elsewhere(const JobSpec& spec, const RunFolder& folder) {
  const std::string path = run_path(spec.run_config.storage_path, spec.run_config.name);
  std::error_code ec;
  return std::filesystem::equivalent(path, folder.path(), ec) ? "" : path;
}

std::string moved_text(const RunFolder& folder, const std::string& other) {
  return fmt::format("'{}' was moved or copied: its spec says that its run is in '{}'",
                     folder.path(), other);
}

constexpr const char* kMovedHint =
    "move it back, or begin a new run with resume_from_checkpoint set to one of its checkpoints";

namespace {

/// Say whether a run may be taken over, or could be: return the exit code if not, or if that was
/// the question.
std::optional<int> failover_verdict(const JobSpec& spec, const RunFolder& folder,
                                    const RunCommand& options) {
  Result<Unit> verdict = Unit{};
  if (options.failover_check) {
    verdict = check_failover(spec, folder, options.failover_mark, submitters_environment());
    if (verdict) return 0;
  } else if (!options.failover_of.empty()) {
    verdict = may_take_over(spec, folder, options.failover_mark, options.failover_of, kBuild);
    if (verdict) return std::nullopt;
  } else {
    return std::nullopt;
  }
  print_error(verdict.error());
  return verdict.error().code == Errc::AlreadyExists ? exit_code::kTaken : exit_code::kUnavailable;
}

}  // namespace

int resume_command(const RunReference& reference, const std::vector<std::string>& overrides,
                   const RunCommand& given) {
  RunCommand options = given;
  std::error_code ec;
  if (options.failover_check && !std::filesystem::is_directory(reference.run, ec))
    return failed({Errc::NotFound, fmt::format("there is no folder {}", reference.run)});
  if (const auto sweep = sweep_of(reference)) {
    if (overrides.empty())
      return resume_sweep_command(*sweep, {.output = options.output,
                                           .detach = options.detach,
                                           .runtime_dir = options.runtime_dir,
                                           .detached = options.detached,
                                           .restarted = options.restarted,
                                           .private_daemon = options.private_daemon});
    print_error({Errc::InvalidArgument, "--set cannot change a sweep that has begun",
                 "begin another one, with its best trial among points"});
    return exit_code::kUsage;
  }
  if (const auto groups = groups_of(reference)) {
    if (overrides.empty()) return resume_groups_command(*groups, options);
    print_error({Errc::InvalidArgument,
                 "--set cannot change a run with replica groups that has begun",
                 "begin another one, with resume_from_checkpoint"});
    return exit_code::kUsage;
  }
  const auto path = path_of(reference);
  if (!path) {
    print_error(path.error());
    return exit_code_of(path.error(), exit_code::kUsage);
  }
  const RunFolder folder(*path);
  auto parsed = parse_stored(folder, overrides);
  if (!parsed) return exit_code::kBadSpec;
  if (const std::string other = place_elsewhere(parsed->spec, folder); !other.empty()) {
    if (overrides.empty())
      print_error({Errc::InvalidArgument, moved_text(folder, other), kMovedHint});
    else
      print_err(
          "train-run: error: run_config.name and run_config.storage_path identify the run and "
          "cannot be changed\n"
          "train-run: to start a new run from the newest checkpoint, set "
          "resume_from_checkpoint\n");
    return exit_code::kUsage;
  }
  if (const auto code = failover_verdict(parsed->spec, folder, options)) return *code;
  options.force |= !options.failover_of.empty();
  std::vector<std::string> words{"resume", folder.path()}, keys;
  for (const std::string& text : overrides) {
    words.insert(words.end(), {"--set", text});
    keys.push_back(text.substr(0, text.find('=')));
  }
  parsed->warnings.clear();  // printed when the run began, for the file that its user wrote
  return run_parsed(std::move(*parsed), read_text(folder.spec()), std::move(keys), false, options,
                    std::move(words));
}

int can_restore_command(const RunReference& reference) {
  const auto no = [&](const std::string& why) {
    print_out("{} cannot be resumed: {}\n", reference.run, why);
    return 1;
  };
  const auto path = path_of(reference);
  if (!path) return no(path.error().message);
  const RunFolder folder(*path);
  PosixFileSystem files;
  const auto held = is_held(folder.lock());
  if (!held) return no(held.error().message);
  if (*held) {
    const auto holder = read_lock_holder(files, folder.lock());
    return no(holder ? fmt::format("train-run {} on {} is running it", holder->pid, holder->host)
                     : fmt::format("'{}' is locked by another process", folder.lock()));
  }
  if (const std::string holder = running_elsewhere(folder); !holder.empty())
    return no(holder + " is running it");
  const auto parsed = parse_stored(folder, {});
  if (!parsed) return no(fmt::format("{} cannot be read", folder.resolved_spec()));
  if (const std::string other = place_elsewhere(parsed->spec, folder); !other.empty())
    return no(moved_text(folder, other));
  const auto point = resume_point(parsed->spec, folder);
  if (!point) return no(point.error().message);
  for (const std::string& warning : point->warnings) print_err("{}\n", Lines{warning});
  print_out("{} can be resumed: {}attempt {} from {}\n", parsed->spec.run_config.name,
            point->living
                ? fmt::format("the workers of attempt {} if they are still running, otherwise ",
                              point->living->value)
                : "",
            point->next.value, point->checkpoint.empty() ? "the beginning" : point->checkpoint);
  return 0;
}

}  // namespace train
