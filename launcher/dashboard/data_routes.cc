// The routes about datasets and goodput.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/json/parse.hpp>
#include <charconv>
#include <cmath>

#include "launcher/cluster/checkpoints/run_checkpoints.h"
#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_routes.h"
#include "launcher/dashboard/run_spec.h"
#include "launcher/report/goodput_text.h"
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

const SampleTable* rank_samples(RunData& run) {
  if (!run.live()) return nullptr;
  for (const SampleTable& table : run.samples())
    if (table.kind == SampleKind::Ranks) return &table;
  return nullptr;
}

/// Put which ranks wait for data. The samples don't tell datasets apart: they are about what the
/// loop iterates over, which is `train`.
void put_waits(JsonWriter& json, const SampleTable* ranks) {
  double sum = 0;
  int known = 0;
  for (std::size_t i = 0; ranks != nullptr && i < ranks->rows.size(); ++i) {
    const double wait = ranks->number("data_wait", i);
    if (!std::isfinite(wait)) continue;
    sum += wait;
    ++known;
  }
  put(json, "wait_ratio", known > 0 ? std::optional(sum / known) : std::nullopt);
  json.key("starving_ranks");
  if (known == 0) {
    json.null().key("operators").null().key("ranks").null();
    return;
  }
  json.array();
  for (std::size_t i = 0; i < ranks->rows.size(); ++i)
    if (ranks->number("data_wait", i) > kStarvingRatio) json.value(rank_number(ranks->rows[i]));
  json.end().key("operators").null().key("ranks").array();
  for (std::size_t i = 0; i < ranks->rows.size(); ++i) {
    json.object().member("rank", rank_number(ranks->rows[i]));
    put_unknown(json, {"rows_per_s", "bytes_per_s", "ready_batches"});
    const double wait = ranks->number("data_wait", i);
    put(json, "wait_ratio", std::isfinite(wait) ? std::optional(wait) : std::nullopt);
    json.end();
  }
  json.end();
}

}  // namespace

Result<HttpResponse> answer_data(const RunRequest& request) {
  const ShownSpec spec = read_shown_spec(request.run.files());
  const boost::json::object positions = positions_of(request.run);
  const SampleTable* ranks = rank_samples(request.run);
  JsonWriter json;
  json.object().key("datasets").array();
  if (spec.spec) {
    for (const auto& [name, dataset] : spec.spec->datasets) {
      const boost::json::object* position = object_member(positions, name);
      json.object()
          .member("name", name)
          .text_or_null("path", fmt::format("{}", fmt::join(dataset.paths, ", ")));
      json.member("format", to_text(dataset.format));
      put(json, "epoch", position ? whole_member(*position, "epoch") : std::nullopt);
      put(json, "rows", position ? whole_member(*position, "rows") : std::nullopt);
      put_unknown(json, {"rows_per_s", "bytes_per_s"});
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
