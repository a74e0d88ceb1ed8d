// A run as a list shows it, and which runs a list shows. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/dashboard/run_view.h"
#include "lib/base/json_text.h"
#include "lib/base/metrics.h"
#include "lib/base/result.h"
#include "lib/http/request.h"
#include "lib/model/time_accounts.h"

namespace train {

/// Which trial of which sweep a run is.
struct TrialOfSweep {
  std::string sweep, name;  // the sweep's id and name
  int trial = 0;
};

struct RunRow {
  std::string id, name, path, owner;
  std::string state = "unknown";
  bool live = false;
  std::string state_since, began, ended;  // RFC 3339
  std::optional<double> duration_s;
  std::optional<std::int64_t> workers, nodes, epoch, reports;
  std::int64_t attempts = 0, restarts = 0;
  std::string last_report;
  Metrics metrics;
  std::optional<double> goodput_ratio;
  TimeAccounts time;  // what its workers' time was used for
  std::string cause, checkpoint, host, error;
  std::optional<TrialOfSweep> trial;
};

inline constexpr std::size_t kRowMetricsMax = 32;

/// Fill in what the journal says. `exit_cause`: of exit.json, or "".
void put_view(RunRow& row, const RunView& view, bool has_ended, const std::string& exit_cause,
              std::chrono::system_clock::time_point now);
/// Fill in rank 0's newest report.
void put_report(RunRow& row, const ReportRecord& report);

/// Fill in what the workers' time was used for.
void put_time(RunRow& row, const TimeAccounts& time);

/// Add what the time was used for: an object, or null if nothing is known.
void put_time(JsonWriter& json, const TimeAccounts& time);
/// Add the members of a RunRow (openapi.yaml) to an open object.
void put_row(JsonWriter& json, const RunRow& row);

struct RunQuery {
  std::vector<std::string> states = {};  // empty: all
  bool live = false;                     // only live ones, as well as those of `states`
  std::string text = {};
  std::string sort = "began";
  bool descending = true;
  std::size_t skip = 0, limit = 1000;
};

/// Return whether `trials` of a list's query asks for runs that are trials of sweeps, too, as it
/// does unless it is `false`.
Result<bool> wants_trials(const HttpQuery& query);

/// Parse "running,live". InvalidArgument names a state that does not exist.
Result<Unit> parse_states(std::string_view text, RunQuery& query);

/// Return the rows that the query wants, in its order. `matching`: how many there are before skip
/// and limit.
std::vector<const RunRow*> select_rows(const std::vector<RunRow>& rows, const RunQuery& query,
                                       std::size_t& matching);

}  // namespace train
