// sweep, and what status, stop and resume do with a sweep.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "cmd/build_info.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/detach.h"
#include "cmd/train-run/options.h"
#include "cmd/train-run/parent_folder.h"
#include "cmd/train-run/parse_job.h"
#include "cmd/train-run/run_life.h"
#include "cmd/train-run/this_node.h"
#include "launcher/cluster/run/run_record.h"
#include "launcher/cluster/sweep/sweep_driver.h"
#include "launcher/cluster/sweep/sweep_folder.h"
#include "launcher/cluster/sweep/sweep_view.h"
#include "launcher/cluster/sweep/trial_reports.h"
#include "launcher/core/runs_at_once.h"
#include "launcher/core/search/sweep_records.h"
#include "launcher/core/search/trial_values.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/print.h"
#include "lib/base/terminal_text.h"
#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_lock.h"

namespace train {
namespace {

constexpr int kAtOnceOnNodes = 16;  // trials, unless the spec says how many
constexpr int kPreviewedTrials = 10;
constexpr std::size_t kStatusRowsMax = 40;

SweepOptions options_for(const ParsedSpec& parsed, const std::string& folder,
                         const SweepCommand& command) {
  const JobSpec& spec = parsed.spec;
  SweepOptions options{.folder = folder,
                       .name = std::filesystem::path(folder).filename().string(),
                       .search = *parsed.sweep,
                       .program = own_program(),
                       .own_daemon = !spec.cluster.names_nodes(),
                       .detached = command.detached,
                       .private_daemon = command.private_daemon,
                       .working_dir = spec.working_dir,
                       .environment = submitters_environment(),
                       .variables = variables_of_no_option(),
                       .output = output_mode(command.output),
                       .build = kBuild};
  options.fit = options.own_daemon ? runs_at_once(spec, this_node())
                                   : parsed.sweep->max_concurrent_trials.value_or(kAtOnceOnNodes);
  options.shorten_orphans =
      spec.run_config.failure_config.orphan_timeout == FailureConfig{}.orphan_timeout;
  return options;
}

void print_preview(const SearchSpec& search) {
  const std::int64_t trials = trial_count(search);
  print_out("{} trials ({}), {} of {} is the best\n", trials,
            kSearchKinds[static_cast<std::size_t>(search.search)],
            kSearchModes[static_cast<std::size_t>(search.mode)], search.metric);
  if (const auto* asha = std::get_if<AshaSpec>(&search.scheduler)) {
    const std::string time = search.time_attribute.empty() ? "reports" : search.time_attribute;
    for (const TrialsToTime& row : asha_preview(*asha, trials))
      print_out("  {} to {} {}\n", row.trials, time, row.time);
  }
  if (search.search == SearchKind::Command)
    return print_out("values: as {} proposes them\n",
                     fmt::format("{}", fmt::join(search.command, " ")));
  for (int trial = 0; trial < std::min<std::int64_t>(trials, kPreviewedTrials); ++trial)
    print_out("trial {}: {}\n", trial, parameters_text(search, trial_values(search, trial)));
  if (trials > kPreviewedTrials) print_out("...\n");
}

std::optional<ParsedSpec> stored_sweep(const SweepFolder& folder) {
  SpecSource source;
  JobOptions job;
  job.path = folder.resolved_spec();
  auto parsed = parse_job(job, &source);
  if (!parsed || parsed->sweep) return parsed;
  print_error({Errc::Corrupt, folder.resolved_spec() + " has no section sweep"});
  return std::nullopt;
}

/// What the journal says of a sweep.
struct SweepHistory {
  SearchController search;
  std::optional<int> code;  // of its end
};
Result<SweepHistory> history_of(const SweepFolder& folder, const SearchSpec& spec) {
  PosixFileSystem files;
  TRY(const auto replay, read_journal(files, folder.journal()));
  SweepHistory history{SearchController(spec), {}};
  for (const JournalRecord& record : replay.records) {
    if (!take_in(history.search, record.event))
      return Error{Errc::Corrupt, fmt::format("{} has a record that cannot be: number {}",
                                              folder.journal(), record.seq)};
    const auto* event = record.event.if_contains("event");
    const auto* code = record.event.if_contains("code");
    if (event != nullptr && *event == "more_trials") history.code.reset();
    if (event != nullptr && *event == "sweep_ended" && code != nullptr && code->is_int64())
      history.code = static_cast<int>(code->as_int64());
  }
  return history;
}

/// Look up what the running trials have reported, of which the journal has only what was decisive.
void read_newest(const SweepFolder& folder, SearchController& search) {
  for (const int trial : search.running()) {
    const TrialState& state = search.trials()[static_cast<std::size_t>(trial)];
    TrialReports reports(RunFolder(folder.trial(trial, state.part)), search.spec().metric,
                         search.spec().time_attribute, state.from ? state.from->time : 0);
    const auto metrics = reports.read(std::numeric_limits<std::uint64_t>::max());
    if (!metrics) continue;
    for (const MetricAtTime& metric : *metrics) search.restore({trial, metric.time, metric.value});
  }
}

std::string state_text(const SweepFolder& folder, bool running, const SweepHistory& history) {
  if (running) return running_text(folder.lock());
  if (history.code) return fmt::format("ended, exit code {}", *history.code);
  return fmt::format("interrupted: go on with train-run resume {}", shell_word(folder.path()));
}

}  // namespace

std::optional<std::string> sweep_of(const RunReference& reference) {
  return find_sweep(reference.run, reference.storage_path.empty() ? home_folder() + "/train_results"
                                                                  : reference.storage_path);
}

/// Go on with a sweep that there is.
int more_trials_command(const JobOptions& job, const SweepCommand& options) {
  if (!job.overrides.empty() || options.preview) {
    print_error({Errc::InvalidArgument, "--more goes on with a sweep as it is",
                 "leave out --set and --preview"});
    return exit_code::kUsage;
  }
  if (const auto sweep = sweep_of({job.path, ""})) return resume_sweep_command(*sweep, options);
  print_error({Errc::NotFound, fmt::format("there is no sweep {}", job.path),
               "--more takes the folder of a sweep, or its name in ~/train_results"});
  return exit_code::kNotFound;
}

int sweep_command(const JobOptions& job, const SweepCommand& options) {
  if (options.more > 0 || options.until > 0) return more_trials_command(job, options);
  SpecSource source;
  const auto parsed = parse_job(job, &source);
  if (!parsed) return exit_code::kBadSpec;
  if (!parsed->sweep) {
    print_error({Errc::InvalidArgument,
                 fmt::format("{} has no section sweep", job.path.empty() ? "the spec" : job.path),
                 "write what to search, as docs/sweep.md shows"});
    return exit_code::kBadSpec;
  }
  if (parsed->spec.scaling_config.num_workers.none()) {
    print_error({Errc::InvalidArgument,
                 "with num_workers: 0 the program runs in place of train-run, and a sweep needs "
                 "train-run for its trials",
                 "ask for a worker: --num-workers 1"});
    return exit_code::kBadSpec;
  }
  if (parsed->spec.backend == Backend::Torchft) {
    print_error({Errc::InvalidArgument, "a trial of a sweep cannot have replica groups",
                 "write backend: torch"});
    return exit_code::kBadSpec;
  }
  if (options.preview) {
    print_preview(*parsed->sweep);
    return 0;
  }
  for (const std::string& warning : parsed->warnings) print_err("{}\n", Lines{warning});
  if (const int code = check_parent_place(parsed->spec, "a sweep"); code != 0) return code;
  ::umask(static_cast<mode_t>(parsed->spec.run_config.umask.bits));
  std::string folder;
  if (const int code = make_parent_folder(*parsed, source, folder); code != 0) return code;
  if (const auto written = replace_private_file(SweepFolder(folder).journal(), ""); !written)
    return failed(written.error());
  if (options.detach) return detach_sweep(folder, parsed->spec.cluster.names_nodes(), options);
  return run_sweep(options_for(*parsed, folder, options));
}

int resume_sweep_command(const std::string& path, const SweepCommand& options) {
  const SweepFolder folder(path);
  const auto parsed = stored_sweep(folder);
  if (!parsed) return exit_code::kBadSpec;
  const auto history = history_of(folder, *parsed->sweep);
  if (!history) return failed(history.error());
  const int before = history->search.spec().num_trials;
  const int until = options.more > 0 ? before + options.more : options.until;
  if (until > before && !history->search.may_have_more()) {
    print_error({Errc::InvalidArgument,
                 fmt::format("the sweep {} has all its trials: its search is {}", path,
                             kSearchKinds[static_cast<std::size_t>(parsed->sweep->search)]),
                 "begin another one with other values"});
    return exit_code::kUsage;
  }
  if (history->code == exit_code::kOk && until <= before) {
    print_error({Errc::AlreadyExists, fmt::format("the sweep {} has ended", path),
                 "train-run sweep --more N lets it try N trials in addition"});
    return exit_code::kTaken;
  }
  if (const int code = check_parent_place(parsed->spec, "a sweep"); code != 0) return code;
  ::umask(static_cast<mode_t>(parsed->spec.run_config.umask.bits));
  if (options.detach) {
    SweepCommand detached = options;
    detached.until = until;
    return detach_sweep(path, parsed->spec.cluster.names_nodes(), detached);
  }
  SweepOptions how = options_for(*parsed, path, options);
  how.more = std::max(until - before, 0);
  return run_sweep(how);
}

int sweep_status_command(const std::string& path, bool json) {
  const SweepFolder folder(path);
  const auto parsed = stored_sweep(folder);
  if (!parsed) return exit_code::kBadSpec;
  auto history = history_of(folder, *parsed->sweep);
  if (!history) return failed(history.error());
  const auto held = is_held(folder.lock());
  const bool running = held && *held;
  read_newest(folder, history->search);
  const SearchController& search = history->search;
  const std::string name = std::filesystem::path(path).filename().string();
  if (json) {
    boost::json::array trials;
    for (std::size_t i = 0; i < search.trials().size(); ++i)
      trials.push_back(trial_json(search, static_cast<int>(i)));
    const auto best = search.best();
    boost::json::object out{{"sweep", name},
                            {"path", path},
                            {"running", running},
                            {"state", running         ? "running"
                                      : history->code ? "ended"
                                                      : "interrupted"},
                            {"metric", search.spec().metric},
                            {"trials_in_all", search.trials_in_all()},
                            {"best", best ? boost::json::value(*best) : nullptr},
                            {"trials", std::move(trials)}};
    if (history->code) out["code"] = *history->code;
    print_json(boost::json::serialize(out));
    return 0;
  }
  const SweepTable table = sweep_table_of(search);
  print_out("sweep:      {}\nfolder:     {}\nstate:      {}\ntrials:     {}\n", name, path,
            state_text(folder, running, *history), sweep_counts(table));
  if (const std::string best = sweep_best(table); !best.empty())
    print_out("best:       {}\n", best.substr(best.find(' ') + 1));
  if (!table.rows.empty()) {
    std::vector<int> order = search.best_first();
    for (const SweepRow& row : table.rows)
      if (!row.best) order.push_back(row.trial);
    print_out("\n{}", Lines{sweep_table(table, order, kStatusRowsMax, 0)});
  }
  return 0;
}

int attach_sweep_command(const std::string& path) {
  if (const int shown = sweep_status_command(path, false); shown != 0) return shown;
  flush_out();
  const RunFolder folder(path);
  // What its train-run prints, if it has no terminal.
  std::ifstream log;
  std::error_code ec;
  if (std::filesystem::is_regular_file(path + "/launcher.log", ec))
    log.open(path + "/launcher.log");
  log.seekg(0, std::ios::end);
  Life life;
  for (bool going_on = true; going_on && !output_has_failed();) {
    going_on = life.goes_on(folder);
    std::ostringstream news;
    news << log.rdbuf();
    log.clear();  // more may come
    if (!news.str().empty()) print_out("{}", Lines{news.str()});
    flush_out();
    if (going_on) std::this_thread::sleep_for(kPollEvery);
  }
  const boost::json::object exit = read_json(folder.exit_json());
  const auto* code = exit.if_contains("code");
  return code != nullptr && code->is_int64() ? static_cast<int>(code->as_int64())
                                             : exit_code::kUnavailable;
}

int stop_sweep_command(const std::string& path) {
  const SweepFolder folder(path);
  return stop_children(path, folder.lock(), folder.stop_request(), "trials");
}

}  // namespace train
