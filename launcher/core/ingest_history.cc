#include "launcher/core/ingest_history.h"

#include <algorithm>
#include <boost/json/value.hpp>

namespace train {
namespace {

constexpr std::int64_t kCountMax = std::int64_t{1} << 32;

std::int64_t count_in(const boost::json::object& event, const char* key) {
  const boost::json::value* value = event.if_contains(key);
  if (value == nullptr) return 0;
  if (value->is_uint64())
    return static_cast<std::int64_t>(std::min<std::uint64_t>(value->get_uint64(), kCountMax));
  return value->is_int64() ? std::clamp<std::int64_t>(value->get_int64(), 0, kCountMax) : 0;
}

std::string text_in(const boost::json::object& event, const char* key) {
  const boost::json::value* value = event.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

}  // namespace

void IngestHistory::add(const boost::json::object& event) {
  if (text_in(event, "event") != "ingest_workers") return;
  const std::string name = text_in(event, "dataset");
  if (!datasets_.contains(name) && datasets_.size() >= kDatasetsMax) return;
  Dataset& dataset = datasets_[name];
  const std::int64_t attempt = count_in(event, "attempt");
  if (attempt != dataset.attempt) dataset.deaths_before += dataset.newest.deaths;
  dataset.attempt = attempt;
  dataset.newest = {.wanted = count_in(event, "wanted"),
                    .serving = count_in(event, "serving"),
                    .deaths = count_in(event, "deaths")};
}

std::map<std::string, IngestCounts> IngestHistory::counts(bool live) const {
  std::map<std::string, IngestCounts> all;
  for (const auto& [name, dataset] : datasets_) {
    IngestCounts& counts = all[name] = dataset.newest;
    counts.deaths += dataset.deaths_before;
    if (!live) counts.serving = 0;
  }
  return all;
}

}  // namespace train
