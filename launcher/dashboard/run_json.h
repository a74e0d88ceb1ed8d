// Answers of the JSON API (openapi.yaml) about one run, made from what is known of it. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/dashboard/metric_series.h"
#include "launcher/dashboard/report_readers.h"
#include "launcher/dashboard/run_view.h"
#include "launcher/report/checkpoint_table.h"
#include "lib/base/json_text.h"
#include "lib/samples/sample_table.h"

namespace train {

/// Add a value of others, any JSON, with its texts made safe.
void put_json(JsonWriter& json, const boost::json::value& value);

/// Add an event of the journal.
void put_event(JsonWriter& json, const JournalRecord& record);

/// Add a row for each attempt. `run_json`: run.json, or an empty object. `newest`: what the time of
/// the newest attempt was used for, which the journal tells only once it has ended.
void put_attempts(JsonWriter& json, const RunView& view, const boost::json::object& run_json,
                  const TimeAccounts& newest, std::chrono::system_clock::time_point now);

/// Add a row for each rank that is slower than the others, those that are farthest behind first.
void put_stragglers(JsonWriter& json, const RunView& view);
void put_ingest(JsonWriter& json, const RunView& view, bool live);

/// Everything that is known about the ranks of an attempt.
struct RankFacts {
  const AttemptView* attempt = nullptr;
  bool live = false;  // it runs now
  std::string run_state = {};
  const std::map<std::int32_t, RankReports>* reports = nullptr;
  const SampleTable* ranks = nullptr;  // of the newest samples, or nullptr
  const SampleTable* gpus = nullptr;
  const RunView* view = nullptr;

  /// Return how many attempts have had the rank.
  std::int64_t attempts_with(std::int64_t rank) const;
};

/// What is read from the rank's own files.
struct RankFiles {
  boost::json::object error = {};  // error.json
  std::optional<std::uint64_t> stdout_bytes = {}, stderr_bytes = {};
  std::optional<ReportRecord> newest = {};
};

/// Return the pid of the rank's process by its newest sample.
std::optional<std::int64_t> pid_of(const RankFacts& facts, std::int64_t rank);

/// Add the row of a rank.
void put_rank(JsonWriter& json, const RankFacts& facts, std::int64_t rank, const RankFiles& files);
/// Return the median of the ranks' step times, or nothing.
std::optional<double> median_step(const SampleTable* ranks);

/// Add the rows of checkpoints. `attempts`: of each row, or nothing.
void put_checkpoints(JsonWriter& json, const CheckpointTable& table,
                     const std::vector<std::optional<std::int64_t>>& attempts);

/// Add the run's nodes.
void put_nodes(JsonWriter& json, const RunView& view, bool live, const SampleTable* nodes,
               const SampleTable* gpus);

/// Add what metric keys a series has.
void put_keys(JsonWriter& json, const MetricSeries& series);
/// Add the series of the keys, in their order.
void put_series(JsonWriter& json, const SeriesPart& part, const std::vector<std::string>& keys);

/// Return the time of a table as RFC 3339, or "".
std::string time_of(const SampleTable* table);

}  // namespace train
