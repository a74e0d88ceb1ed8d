// The routes about metrics and samples over time.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>

#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_json.h"
#include "launcher/dashboard/run_routes.h"
#include "lib/samples/data_rows.h"
#include "lib/samples/sample_reader.h"

namespace train {
namespace {

constexpr std::size_t kKeysMax = 64;
constexpr std::size_t kListedRanksMax = 10'000;
constexpr std::int64_t kRankMax = 1'000'000;

/// A member of RankRow, Node or OperatorRow (openapi.yaml), and the column of samples that it comes
/// from.
struct SampleName {
  std::string_view name, field;
  bool adds_up = true;  // over ranks; others are averaged
};
constexpr std::array kRankNames{
    SampleName{"cpu_cores", "cpu"},
    SampleName{"rss_bytes", "rss"},
    SampleName{"threads", "threads"},
    SampleName{"read_bytes_per_s", "read_per_s"},
    SampleName{"write_bytes_per_s", "written_per_s"},
    SampleName{"step", "steps", false},
    SampleName{"step_s", "step_s", false},
    SampleName{"steps_per_s", "steps_per_s", false},
    SampleName{"data_wait_ratio", "data_wait", false},
    SampleName{"collective_wait_ratio", "collective_wait", false},
    SampleName{"checkpoint_wait_ratio", "checkpoint_wait", false},
    SampleName{"report_wait_ratio", "report_wait", false},
    SampleName{"cpu_wait_ratio", "cpu_wait", false},
    SampleName{"quiet_s", "quiet_s", false},
};
constexpr std::array kNodeNames{
    SampleName{"cpu_used_cores", "cpu"},
    SampleName{"load1", "load"},
    SampleName{"memory_used_bytes", "memory_used"},
    SampleName{"memory_total_bytes", "memory"},
    SampleName{"disk_free_bytes", "run_free"},
    SampleName{"receive_bytes_per_s", "received_per_s"},
    SampleName{"send_bytes_per_s", "sent_per_s"},
    SampleName{"read_bytes_per_s", "read_per_s"},
    SampleName{"write_bytes_per_s", "written_per_s"},
    SampleName{"cpu_pressure_ratio", "cpu_pressure"},
    SampleName{"memory_pressure_ratio", "memory_pressure"},
    SampleName{"io_pressure_ratio", "io_pressure"},
};

constexpr std::array kDataNames{
    SampleName{"rows_per_s", "rows_per_s"},
    SampleName{"bytes_per_s", "bytes_per_s"},
    SampleName{"busy_ratio", "busy", false},
    SampleName{"wait_ratio", "input_wait", false},
    SampleName{"room_wait_ratio", "room_wait", false},
    SampleName{"worst_wait_ratio", "worst_wait", false},
    SampleName{"queue_bytes", "queue_bytes"},
};

std::set<std::string> names_in(const std::string& text) {
  std::set<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    names.insert(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

/// Return the field over all rows of the table: the sum or the mean of what is known.
std::optional<double> over_rows(const SampleTable& table, const SampleName& name) {
  double sum = 0;
  int known = 0;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const double value = table.number(name.field, row);
    if (!std::isfinite(value)) continue;
    sum += value;
    ++known;
  }
  if (known == 0) return std::nullopt;
  return name.adds_up ? sum : sum / known;
}

void put_columns(JsonWriter& json, const std::vector<SampleTable>& tables,
                 const std::vector<SampleName>& names) {
  json.key("t").array();
  for (const SampleTable& table : tables) json.value(static_cast<double>(table.end_ms) / 1e3);
  json.end().key("series").object();
  for (const SampleName& name : names) {
    json.key(name.name).array();
    for (const SampleTable& table : tables) {
      const auto value = over_rows(table, name);
      value ? json.value(*value) : json.null();
    }
    json.end();
  }
  json.end();
}

Result<std::int32_t> rank_of(const HttpQuery& query) {
  TRY(const std::int64_t rank, query.whole("rank", 0, 0, kRankMax));
  return static_cast<std::int32_t>(rank);
}

}  // namespace

Result<HttpResponse> answer_metric_keys(const RunRequest& request) {
  TRY(const std::int32_t rank, rank_of(request.query));
  const MetricSeries& series = request.run.series(rank).series();
  JsonWriter json;
  json.object().member("rank", rank).member("reports", series.reports()).key("ranks").array();
  std::size_t listed = 0;
  for (const auto& [one, reports] : request.run.reports().ranks()) {
    if (++listed > kListedRanksMax) break;
    json.value(one);
  }
  json.end().key("keys");
  put_keys(json, series);
  json.end();
  return HttpResponse{.body = std::move(json).take()};
}

Result<HttpResponse> answer_metrics(const RunRequest& request) {
  TRY(const std::int32_t rank, rank_of(request.query));
  const std::vector<std::string> keys = request.query.all("key");
  if (keys.empty() || keys.size() > kKeysMax)
    return Error{
        Errc::InvalidArgument,
        fmt::format("{} keys are given, but from 1 to {} are needed", keys.size(), kKeysMax),
        "see …/metrics/keys for their names"};
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() - 1;
  TRY(const std::int64_t points, request.query.whole("points", 1000, 2, 4000));
  TRY(const std::int64_t from, request.query.whole("from", 1, 1, kMost));
  TRY(const std::int64_t to, request.query.whole("to", kMost, 1, kMost));
  const RankSeriesReader& reader = request.run.series(rank);
  const std::uint64_t reports = reader.series().reports();
  const SeriesPart part = reader.part(keys, static_cast<std::uint64_t>(from),
                                      std::min(static_cast<std::uint64_t>(to), reports),
                                      static_cast<std::size_t>(points));
  JsonWriter json;
  json.object().member("rank", rank).member("reports", reports);
  json.member("from", part.from).member("to", part.to).member("per_bucket", part.per_bucket);
  json.key("attempts").array();
  for (const auto& [attempt, first] : reader.series().attempts())
    json.object().member("attempt", attempt).member("first_report", first).end();
  json.end().key("series");
  put_series(json, part, keys);
  json.end();
  return HttpResponse{.body = std::move(json).take()};
}

Result<HttpResponse> answer_samples(const RunRequest& request) {
  const std::string* node = request.query.find("node");
  const std::string* rank = request.query.find("rank");
  TRY(const std::int32_t number, rank_of(request.query));
  SampleQuery query;
  const std::string* dataset = request.query.find("dataset");
  query.kind = dataset != nullptr ? SampleKind::Data
               : node != nullptr  ? SampleKind::Nodes
                                  : SampleKind::Ranks;
  if (query.kind == SampleKind::Nodes) query.rows = {*node};
  if (query.kind == SampleKind::Ranks && rank != nullptr) query.rows = {std::to_string(number)};
  if (query.kind == SampleKind::Data) {
    const std::string* operation = request.query.find("operator");
    query.rows = {data_row_name(*dataset, operation != nullptr ? *operation : "loop",
                                rank != nullptr ? std::optional(number) : std::nullopt)};
  }
  TRY(const std::int64_t points, request.query.whole("points", 600, 4, 4000));
  query.tables_max = static_cast<std::size_t>(points);
  TRY(const auto from, request.query.number("from"));
  TRY(const auto to, request.query.number("to"));
  constexpr double kMost = 1e15;
  if (from) query.from_ms = static_cast<std::int64_t>(std::clamp(*from * 1e3, 0.0, kMost));
  if (to) query.to_ms = static_cast<std::int64_t>(std::clamp(*to * 1e3, 0.0, kMost));
  const std::set<std::string> wanted = names_in(request.query.text("fields"));
  std::vector<SampleName> names;
  const auto take = [&](const auto& all) {
    for (const SampleName& name : all)
      if (wanted.empty() || wanted.contains(std::string(name.name))) names.push_back(name);
  };
  if (query.kind == SampleKind::Data)
    take(kDataNames);
  else
    node != nullptr ? take(kNodeNames) : take(kRankNames);
  for (const SampleName& name : names) query.fields.emplace_back(name.field);
  if (names.empty())
    return Error{Errc::InvalidArgument, "no field of that name has samples over time"};
  std::vector<SampleTable> tables;
  if (const auto file = request.run.files().open("samples.jsonl")) {
    TRY(tables, read_samples(*file, query));
  }
  JsonWriter json;
  json.object().key("rank");
  query.kind != SampleKind::Nodes&& rank != nullptr ? json.value(number) : json.null();
  json.text_or_null("node", query.kind == SampleKind::Nodes ? *node : "");
  put_columns(json, tables, names);
  json.end();
  return HttpResponse{.body = std::move(json).take()};
}

}  // namespace train
