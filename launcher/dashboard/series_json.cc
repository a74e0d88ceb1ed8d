// The answers about metrics over time.
#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_json.h"

namespace train {
namespace {

std::string_view kind_of(MetricInfo::Kind kind) {
  switch (kind) {
    case MetricInfo::Kind::Number:
      return "number";
    case MetricInfo::Kind::Text:
      return "text";
    case MetricInfo::Kind::Bool:
      return "bool";
  }
  return "";
}

/// Add a list with a value of each bucket that has the key.
template <class Value>
void put_list(JsonWriter& json, std::string_view name, const SeriesPart& part,
              const std::vector<MetricCell>& cells, const Value& value) {
  json.key(name).array();
  for (std::size_t i = 0; i < cells.size(); ++i)
    if (cells[i].count > 0) value(part.starts[i], cells[i]);
  json.end();
}

void put_one_series(JsonWriter& json, const SeriesPart& part, const std::string& key,
                    const std::vector<MetricCell>& cells) {
  const auto list = [&](std::string_view name, const auto& value) {
    put_list(json, name, part, cells, value);
  };
  const auto finite = [&](const MetricCell& cell, double value) {
    cell.count > cell.non_finite ? json.value(value) : json.null();
  };
  using Start = BucketStart;
  using Cell = MetricCell;
  json.object().member("key", key);
  list("report", [&](const Start& start, const Cell&) { json.value(start.report); });
  list("t", [&](const Start& start, const Cell&) {
    json.value(static_cast<double>(start.wall_us) / 1e6);
  });
  list("epoch", [&](const Start& start, const Cell&) {
    start.epoch ? json.value(*start.epoch) : json.null();
  });
  list("min", [&](const Start&, const Cell& cell) { finite(cell, cell.min); });
  list("max", [&](const Start&, const Cell& cell) { finite(cell, cell.max); });
  list("mean", [&](const Start&, const Cell& cell) {
    finite(cell, cell.sum / static_cast<double>(cell.count - cell.non_finite));
  });
  list("last", [&](const Start&, const Cell& cell) { json.value(cell.last); });
  list("count", [&](const Start&, const Cell& cell) { json.value(cell.count); });
  list("non_finite", [&](const Start&, const Cell& cell) { json.value(cell.non_finite); });
  json.end();
}

}  // namespace

void put_keys(JsonWriter& json, const MetricSeries& series) {
  json.array();
  for (const auto& [key, info] : series.keys()) {
    const bool finite = info.all.count > info.all.non_finite;
    json.object().member("key", key).member("kind", kind_of(info.kind));
    json.member("reports", info.reports).member("last", info.last);
    put(json, "min", finite ? std::optional(info.all.min) : std::nullopt);
    put(json, "max", finite ? std::optional(info.all.max) : std::nullopt);
    json.member("non_finite", info.all.non_finite).end();
  }
  json.end();
}

void put_series(JsonWriter& json, const SeriesPart& part, const std::vector<std::string>& keys) {
  json.array();
  for (const std::string& key : keys) {
    const auto cells = part.cells.find(key);
    put_one_series(json, part, key,
                   cells == part.cells.end() ? std::vector<MetricCell>{} : cells->second);
  }
  json.end();
}

}  // namespace train
