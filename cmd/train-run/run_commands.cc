// status, stop: commands that look at a run's folder, from any machine that can access it.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/run_life.h"
#include "cmd/train-run/run_so_far.h"
#include "cmd/train-run/sample_rows.h"
#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/run/detached_run.h"
#include "launcher/cluster/run/run_registry.h"
#include "launcher/core/ingest_history.h"
#include "launcher/core/run_history.h"
#include "launcher/report/data_verdict.h"
#include "launcher/report/goodput_text.h"
#include "launcher/report/rank_status.h"
#include "launcher/report/summary.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/json_text.h"
#include "lib/base/print.h"
#include "lib/observe/metrics_log.h"
#include "lib/samples/sample_reader.h"

namespace train {
namespace {

namespace fs = std::filesystem;
constexpr auto kFarPollEvery = std::chrono::seconds(2);

/// Return what the time of the run's workers was used for: as its end says, or as its launcher
/// wrote down last.
TimeAccounts time_of(const RunFolder& folder, bool running, std::int64_t attempt) {
  const Attempt newest{static_cast<std::uint32_t>(attempt)};
  return run_time_in(running ? boost::json::object{} : read_json(folder.run_json()),
                     read_json(folder.goodput_json(newest)));
}

/// Return the value; null for a number that JSON lacks.
boost::json::value json_of(const MetricValue& value) {
  const auto* number = std::get_if<double>(&value);
  if (number != nullptr && !std::isfinite(*number)) return nullptr;
  return std::visit([](const auto& v) { return boost::json::value_from(v); }, value);
}

/// Return what was measured last of the run's ranks, nodes and GPUs; nothing if nothing was, or if
/// somebody else has written the file.
std::vector<SampleTable> newest_samples(const RunFolder& folder) {
  auto newest = read_newest_samples(folder.newest_samples());
  return newest ? std::move(*newest) : std::vector<SampleTable>{};
}

/// Return whether the run waits for its data; of a run that has ended, in all of its time.
std::optional<DataVerdict> newest_verdict(const std::vector<SampleTable>& newest) {
  for (const SampleTable& table : newest)
    if (table.kind == SampleKind::Data) return data_verdict(table);
  return std::nullopt;
}

/// Add what was measured. Of a run that has ended, only what its datasets did still says something.
void add_samples(boost::json::object& out, const std::vector<SampleTable>& newest, bool running) {
  JsonWriter verdict;
  verdict.object();
  put_data_bound(verdict, newest_verdict(newest));
  verdict.end();
  out["data_bound"] = boost::json::parse(std::move(verdict).take()).as_object().at("data_bound");
  for (const SampleTable& table : newest) {
    if (!running && table.kind != SampleKind::Data) continue;
    out[to_string(table.kind)] = sample_rows(table);
    if (table.kind == SampleKind::Ranks)
      out["ranks_at"] =
          format_utc(std::chrono::system_clock::time_point(milliseconds(table.end_ms)));
  }
}

void print_ranks(const std::vector<SampleTable>& newest) {
  if (newest.empty()) return;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::int64_t age_ms =
      std::chrono::duration_cast<milliseconds>(now).count() - newest.front().end_ms;
  const std::string text = rank_status_text(newest, age_ms);
  if (!text.empty()) print_out("\n{}", Lines{text});
}

Result<Unit> ask_elsewhere(const RunFolder& folder) {
  TRY(const auto remote, RemoteRun::open(location_of_run(folder)));
  return remote->ask_to_stop();
}

}  // namespace

void print_error(const Error& error) { print_error("train-run", error); }

Result<std::string> path_of(const RunReference& reference) {
  return find_run(reference.run, reference.storage_path.empty() ? home_folder() + "/train_results"
                                                                : reference.storage_path);
}

int status_command(const RunReference& reference, bool json) {
  if (const auto sweep = sweep_of(reference)) return sweep_status_command(*sweep, json);
  if (const auto groups = groups_of(reference)) return groups_status_command(*groups, json);
  const auto folder = folder_of(reference);
  if (!folder) return failed(folder.error());
  const bool running = is_running(*folder);
  const RunSoFar view = run_so_far(*folder);
  const boost::json::object exit = read_json(folder->exit_json());
  PosixFileSystem files;
  const auto holder = read_lock_holder(files, folder->lock());
  if (json) {
    boost::json::object out{{"run", fs::path(folder->path()).filename().string()},
                            {"path", location_of_run(*folder)},
                            {"running", running},
                            {"state", running || !exit.empty() ? view.state : "interrupted"},
                            {"attempt", view.attempt},
                            {"world_size", view.world_size},
                            {"restarts", view.restarts},
                            {"checkpoint", view.checkpoint}};
    const TimeAccounts time = time_of(*folder, running, view.attempt);
    if (time.total() > Duration{})
      out["goodput"] = boost::json::object{{"ratio", time.share(TimeUse::Step)},
                                           {"worker_seconds", json_of(time)}};
    if (!running && !exit.empty()) out["exit"] = exit;
    if (view.report) {
      boost::json::object metrics;
      for (const auto& [name, value] : view.report->metrics) {
        metrics[name] = json_of(value);
      }
      out["metrics"] = std::move(metrics);
    }
    boost::json::array ingest;
    for (const auto& [dataset, counts] : view.ingest.counts(running))
      ingest.push_back(boost::json::object{{"dataset", dataset},
                                           {"workers", counts.wanted},
                                           {"serving", counts.serving},
                                           {"deaths", counts.deaths}});
    out["ingest"] = std::move(ingest);
    add_samples(out, newest_samples(*folder), running);
    print_json(boost::json::serialize(out));
    return 0;
  }
  print_out("run:        {}\nfolder:     {}\n", fs::path(folder->path()).filename().string(),
            location_of_run(*folder));
  const std::string elsewhere = running_elsewhere(*folder);
  if (running && !elsewhere.empty()) {
    print_out("state:      {} ({})\n", view.state, elsewhere);
  } else if (running) {
    print_out("state:      {}{}\n", view.state,
              holder ? fmt::format(" (train-run pid {} on {}, since {})", holder->pid, holder->host,
                                   holder->started)
                     : "");
  } else if (!exit.empty()) {
    const auto* cause = exit.if_contains("cause");
    const auto* code = exit.if_contains("code");
    print_out("state:      {}, exit code {}{}\n", view.state,
              code != nullptr && code->is_int64() ? code->as_int64() : -1,
              cause != nullptr && cause->is_string() && !cause->as_string().empty()
                  ? fmt::format(": {}", std::string_view(cause->as_string()))
                  : "");
  } else {
    print_out("state:      {}\n", left_text(*folder));
  }
  print_out("attempt:    {} ({} workers, {} restarts)\n", view.attempt, view.world_size,
            view.restarts);
  print_out("checkpoint: {}\n", view.checkpoint.empty() ? "none" : view.checkpoint);
  if (const auto text = goodput_text(time_of(*folder, running, view.attempt)); !text.empty())
    print_out("goodput:    {}\n", text);
  const auto newest = newest_samples(*folder);
  if (const auto verdict = newest_verdict(newest))
    print_out("data:       {}\n", data_verdict_text(*verdict));
  for (const auto& [dataset, counts] : view.ingest.counts(running))
    print_out("ingest:     {}\n",
              ingest_text({dataset, counts.wanted, counts.serving, counts.deaths}, running));
  if (view.report) {
    print_out("metrics:   ");
    for (const auto& [name, value] : view.report->metrics)
      print_out(" {}={}", name, metric_text(value));
    print_out("\n");
  }
  if (running) print_ranks(newest);
  return 0;
}

int stop_command(const RunReference& reference) {
  if (const auto sweep = sweep_of(reference)) return stop_sweep_command(*sweep);
  if (const auto groups = groups_of(reference)) return stop_groups_command(*groups);
  const auto folder = folder_of(reference);
  if (!folder) return failed(folder.error());
  if (!is_running(*folder)) {
    print_err("train-run: error: {} is not running{}\n", folder->path(),
              read_json(folder->exit_json()).empty() ? ": " + left_text(*folder) : "");
    return 1;
  }
  if (running_elsewhere(*folder).empty()) {
    const std::string request = folder->stop_request();
    if (!(std::ofstream(request) << "stop\n" << std::flush)) {
      return failed(system_error(errno, "writing " + request));
    }
  } else if (const auto asked = ask_elsewhere(*folder); !asked) {
    return failed(asked.error());
  }
  print_out("asked {} to checkpoint and stop\n", fs::path(folder->path()).filename().string());
  flush_out();
  Life life(kFarPollEvery);
  while (life.goes_on(*folder)) std::this_thread::sleep_for(kPollEvery);
  if (read_json(folder->exit_json()).empty()) {
    print_err("train-run: error: {} was not stopped: {}\n", folder->path(), left_text(*folder));
    return exit_code::kUnavailable;
  }
  print_out("{}\n", run_so_far(*folder).state);
  return 0;
}

}  // namespace train
