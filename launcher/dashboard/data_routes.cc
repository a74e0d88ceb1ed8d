// The routes about datasets and goodput.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <charconv>
#include <cmath>

#include "launcher/cluster/checkpoints/run_checkpoints.h"
#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_routes.h"
#include "launcher/dashboard/run_spec.h"
#include "launcher/report/data_verdict.h"
#include "launcher/report/goodput_text.h"
#include "lib/samples/data_rows.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr double kStarvingRatio = 0.1;  // of its time that a rank waits for data

std::int64_t rank_number(const std::string& row) {
  std::int64_t rank = 0;
  (void)std::from_chars(row.data(), row.data() + row.size(), rank);
  return rank;
}

/// Return the positions in the datasets that the newest checkpoint records.
boost::json::object positions_of(const RunData& run) {
  PosixFileSystem files;
  const auto checkpoints = open_checkpoints(run.location(), files);
  if (!checkpoints) return {};
  const auto newest = checkpoints->store->latest();
  if (!newest || !*newest) return {};
  const boost::json::object* data = object_member((*newest)->manifest.metadata, "data");
  return data != nullptr ? *data : boost::json::object{};
}

const SampleTable* table_of(RunData& run, SampleKind kind) {
  for (const SampleTable& table : run.samples())
    if (table.kind == kind) return &table;
  return nullptr;
}

/// The rows of one dataset.
struct DatasetRows {
  std::vector<std::pair<std::string_view, std::size_t>> operators;  // of all ranks together
  std::optional<std::size_t> loop;                                  // of all ranks together
  std::vector<std::pair<std::int32_t, std::size_t>> loops;          // by rank
};

DatasetRows rows_of(const SampleTable& data, std::string_view dataset) {
  DatasetRows found;
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    const auto row = parse_data_row(data.rows[i]);
    if (!row || row->dataset != dataset) continue;
    const bool is_loop = row->operation == "loop";
    if (row->rank && is_loop) found.loops.emplace_back(*row->rank, i);
    if (row->rank) continue;
    found.operators.emplace_back(row->operation, i);
    if (is_loop) found.loop = i;
  }
  std::sort(found.loops.begin(), found.loops.end());
  return found;
}

/// Put members that are columns of the samples' row.
void put_columns(JsonWriter& json, const SampleTable& data, std::size_t row,
                 std::initializer_list<std::pair<std::string_view, std::string_view>> columns) {
  for (const auto& [name, field] : columns) {
    const double value = data.number(field, row);
    put(json, name, std::isfinite(value) ? std::optional(value) : std::nullopt);
  }
}

/// Put what was measured of a dataset: now, or on average over a run that has ended.
void put_measured(JsonWriter& json, const SampleTable& data, std::string_view dataset,
                  const DatasetRows& rows) {
  put_columns(
      json, data, *rows.loop,
      {{"rows_per_s", "rows_per_s"}, {"bytes_per_s", "bytes_per_s"}, {"wait_ratio", "input_wait"}});
  json.key("starving_ranks").array();
  for (const auto& [rank, row] : rows.loops)
    if (data.number("input_wait", row) > kStarvingRatio) json.value(rank);
  json.end().key("operators").array();
  for (const auto& [name, row] : rows.operators) {
    json.object().member("name", name);
    put_columns(json, data, row,
                {{"rows", "rows_total"},
                 {"bytes", "bytes_total"},
                 {"rows_per_s", "rows_per_s"},
                 {"bytes_per_s", "bytes_per_s"},
                 {"busy_ratio", "busy"},
                 {"input_wait_ratio", "input_wait"},
                 {"room_wait_ratio", "room_wait"},
                 {"queue_bytes", "queue_bytes"}});
    json.end();
  }
  json.end().key("ranks").array();
  const auto bottlenecks = data_bottlenecks(data, dataset);
  for (const auto& [rank, row] : rows.loops) {
    json.object().member("rank", rank);
    put_columns(json, data, row,
                {{"rows_per_s", "rows_per_s"},
                 {"bytes_per_s", "bytes_per_s"},
                 {"wait_ratio", "input_wait"}});
    const bool starves = data.number("input_wait", row) > kStarvingRatio;
    const auto bottleneck = bottlenecks.find(rank);
    json.text_or_null("operator",
                      starves && bottleneck != bottlenecks.end() ? bottleneck->second : "");
    json.end();
  }
  json.end();
}

/// Put which ranks wait for data, for a program that reads datasets in its own way. Its phases
/// don't tell datasets apart: they are about what the loop iterates over, which is `train`.
void put_waits(JsonWriter& json, const SampleTable* ranks) {
  put_unknown(json, {"rows_per_s", "bytes_per_s"});
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; ranks != nullptr && i < ranks->rows.size(); ++i) {
    const double wait = ranks->number("data_wait", i);
    if (!std::isfinite(wait)) continue;
    sum += wait;
    ++count;
  }
  put(json, "wait_ratio", count > 0 ? std::optional(sum / count) : std::nullopt);
  json.key("starving_ranks");
  if (count == 0) {
    json.null().key("operators").null().key("ranks").null();
    return;
  }
  json.array();
  for (std::size_t i = 0; i < ranks->rows.size(); ++i)
    if (ranks->number("data_wait", i) > kStarvingRatio) json.value(rank_number(ranks->rows[i]));
  json.end().key("operators").null().key("ranks").array();
  for (std::size_t i = 0; i < ranks->rows.size(); ++i) {
    json.object().member("rank", rank_number(ranks->rows[i]));
    put_unknown(json, {"rows_per_s", "bytes_per_s"});
    put_columns(json, *ranks, i, {{"wait_ratio", "data_wait"}});
    json.key("operator").null().end();
  }
  json.end();
}

}  // namespace

Result<HttpResponse> answer_data(const RunRequest& request) {
  const ShownSpec spec = read_shown_spec(request.run.files());
  const boost::json::object positions = positions_of(request.run);
  RunData& run = request.run;
  const bool live = run.live();
  const SampleTable* data = table_of(run, SampleKind::Data);
  const SampleTable* ranks = live ? table_of(run, SampleKind::Ranks) : nullptr;
  JsonWriter json;
  json.object();
  put_data_bound(json, data != nullptr ? data_verdict(*data) : std::nullopt);
  json.key("datasets").array();
  if (spec.spec) {
    for (const auto& [name, dataset] : spec.spec->datasets) {
      const boost::json::object* position = object_member(positions, name);
      json.object()
          .member("name", name)
          .text_or_null("path", fmt::format("{}", fmt::join(dataset.paths, ", ")));
      json.member("format", to_text(dataset.format));
      put(json, "epoch", position ? whole_member(*position, "epoch") : std::nullopt);
      put(json, "rows", position ? whole_member(*position, "rows") : std::nullopt);
      const DatasetRows rows = data != nullptr ? rows_of(*data, name) : DatasetRows{};
      if (rows.loop)
        put_measured(json, *data, name, rows);
      else
        put_waits(json, name == "train" ? ranks : nullptr);
      json.end();
    }
  }
  json.end().end();
  return HttpResponse{.body = std::move(json).take()};
}

Result<HttpResponse> answer_goodput(const RunRequest& request) {
  const RunData& run = request.run;
  const TimeAccounts whole = run.time();
  JsonWriter json;
  json.object();
  put(json, "goodput_ratio",
      says_anything(whole) ? std::optional(whole.share(TimeUse::Step)) : std::nullopt);
  json.key("total");
  put_time(json, whole);
  json.key("attempts").array();
  for (const AttemptView& attempt : run.view().attempts) {
    json.object().member("attempt", attempt.attempt).key("seconds");
    put_time(json, run.time_of(attempt));
    json.end();
  }
  json.end().end();
  return HttpResponse{.body = std::move(json).take()};
}

}  // namespace train
