#include "launcher/dashboard/sweeps/sweep_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_json.h"
#include "lib/base/overloaded.h"
#include "lib/base/time.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::int64_t kTrialsAnAnswer = 10'000;
constexpr std::size_t kCurvesAnAnswer = 100;
constexpr std::uint64_t kCurveBytesMax = 64u << 20;  // of reports, read for one answer
constexpr std::size_t kChoicesShown = 64;
constexpr std::array<std::string_view, 6> kStates{"running", "finished",    "stopped",
                                                  "failed",  "interrupted", "invalid"};
constexpr std::array<std::string_view, 5> kKinds{"const", "choice", "uniform", "log_uniform",
                                                 "int"};

std::string_view scheduler_of(const SearchSpec& search) {
  return std::visit(
      Overloaded{[](const NoScheduler&) { return std::string_view("none"); },
                 [](const AshaSpec&) { return std::string_view("asha"); },
                 [](const MedianSpec&) { return std::string_view("median_stopping"); },
                 [](const PbtSpec&) { return std::string_view("pbt"); }},
      search.scheduler);
}

std::optional<double> finite(std::optional<double> number) {
  return number && std::isfinite(*number) ? number : std::nullopt;
}

void put_parameters(JsonWriter& json, const std::string& text) {
  json.key("parameters");
  text.empty() ? json.null() : json.raw(text);
}

void put_counts(JsonWriter& json, const SweepData& sweep) {
  std::array<std::int64_t, kStates.size()> counts{};
  for (std::size_t i = 0; i < sweep.table().trials.size(); ++i) {
    std::string_view state = sweep.table().trials[i].end;
    if (state.empty()) state = sweep.live() ? "running" : "interrupted";
    const auto at = std::find(kStates.begin(), kStates.end(), state);
    if (at != kStates.end()) ++counts[static_cast<std::size_t>(at - kStates.begin())];
  }
  json.key("counts").object();
  for (std::size_t i = 0; i < kStates.size(); ++i) json.member(kStates[i], counts[i]);
  json.end();
}

void put_best(JsonWriter& json, const SweepData& sweep) {
  json.key("best");
  const auto best = sweep.best();
  if (!best) return void(json.null());
  const TrialRow row = sweep.row(*best);
  json.object().member("trial", row.trial).member("run", row.run);
  put(json, "value", finite(row.best));
  put(json, "time", finite(row.best_time));
  put_parameters(json, row.view->parameters);
  json.end();
}

std::optional<double> duration_of(const SweepData& sweep) {
  const TrialTable& table = sweep.table();
  if (table.began.empty()) return std::nullopt;
  const auto end = sweep.live() ? std::chrono::system_clock::now()
                                : parse_utc(table.ended.empty() ? table.last_time : table.ended);
  return std::max(0.0, std::chrono::duration<double>(end - parse_utc(table.began)).count());
}

void put_parameter(JsonWriter& json, const Parameter& parameter) {
  const bool whole = parameter.kind == ParameterKind::Int;
  const bool range = whole || parameter.kind == ParameterKind::Uniform ||
                     parameter.kind == ParameterKind::LogUniform;
  json.object().member("path", parameter.path);
  json.member("kind", kKinds[static_cast<std::size_t>(parameter.kind)]);
  json.key("low");
  range ? (whole ? json.value(parameter.least) : json.value(parameter.low)) : json.null();
  json.key("high");
  range ? (whole ? json.value(parameter.greatest) : json.value(parameter.high)) : json.null();
  json.key("values").array();
  for (std::size_t i = 0; i < std::min(kChoicesShown, parameter.values.size()); ++i)
    put_json(json, parameter.values[i]);
  json.end().end();
}

HttpResponse json_response(JsonWriter&& json) { return {.body = std::move(json).take()}; }

Result<int> trial_of(const SweepData& sweep, const std::string& text) {
  const auto trial = trial_number(text);
  if (trial && std::cmp_less(*trial, sweep.table().trials.size())) return *trial;
  return Error{Errc::NotFound, fmt::format("the sweep has no trial '{}'", utf8_text(text, 32))};
}

}  // namespace

void put_sweep_row(JsonWriter& json, const SweepData& sweep, bool with_duration) {
  const TrialTable& table = sweep.table();
  const std::optional<SearchSpec>& search = sweep.search();
  json.member("id", sweep.id()).member("name", sweep.name()).member("path", sweep.files().folder());
  json.text_or_null("owner", sweep.owner()).member("state", sweep.state());
  json.member("live", sweep.live()).text_or_null("began", table.began);
  json.text_or_null("ended", sweep.live() ? std::string() : table.ended);
  put(json, "duration_s", with_duration || !sweep.live() ? duration_of(sweep) : std::nullopt);
  json.text_or_null("metric", search ? search->metric : "");
  json.text_or_null("mode", search ? kSearchModes[static_cast<std::size_t>(search->mode)] : "");
  json.text_or_null("time_attribute", search ? search->time_attribute : "");
  json.text_or_null("search", search ? kSearchKinds[static_cast<std::size_t>(search->search)] : "");
  json.text_or_null("scheduler", search ? scheduler_of(*search) : "");
  json.member("trials", table.trials.size());
  put(json, "planned", sweep.planned());
  put_counts(json, sweep);
  put_best(json, sweep);
  json.text_or_null("cause", table.cause).text_or_null("host", table.host);
  json.text_or_null("error", sweep.damage());
}

void put_trial_row(JsonWriter& json, const TrialRow& row) {
  const TrialView& view = *row.view;
  json.object().member("trial", row.trial).member("run", row.run).member("state", row.state);
  put_parameters(json, view.parameters);
  put(json, "time", finite(row.time));
  put(json, "value", finite(row.value));
  put(json, "best", finite(row.best));
  put(json, "best_time", finite(row.best_time));
  json.text_or_null("began", view.began).text_or_null("ended", view.ended);
  json.member("part", view.parts.back().number);
  put(json, "from", view.parts.back().from);
  put(json, "code", view.code);
  json.text_or_null("cause", view.cause).end();
}

Result<HttpResponse> answer_sweep(const SweepRequest& request) {
  const SweepData& sweep = request.sweep;
  const std::optional<SearchSpec>& search = sweep.search();
  JsonWriter json;
  json.object();
  put_sweep_row(json, sweep);
  json.key("parameters").array();
  if (search)
    for (const Parameter& parameter : search->parameters) put_parameter(json, parameter);
  json.end();
  put(json, "max_concurrent_trials", search ? search->max_concurrent_trials : std::nullopt);
  put(json, "seed", search ? std::optional(search->seed) : std::nullopt);
  json.member("pid", sweep.table().pid);
  json.member("now", format_utc(std::chrono::system_clock::now())).end();
  return json_response(std::move(json));
}

Result<HttpResponse> answer_trials(const SweepRequest& request) {
  TRY(const std::int64_t skip, request.query.whole("after", 0, 0, kTrialsMax));
  TRY(const std::int64_t limit, request.query.whole("limit", kTrialsAnAnswer, 1, kTrialsAnAnswer));
  const SweepData& sweep = request.sweep;
  const auto all = static_cast<std::int64_t>(sweep.table().trials.size());
  JsonWriter json;
  json.object().key("trials").array();
  for (std::int64_t trial = skip; trial < std::min(all, skip + limit); ++trial)
    put_trial_row(json, sweep.row(static_cast<int>(trial)));
  json.end().member("total", all).end();
  return json_response(std::move(json));
}

Result<HttpResponse> answer_curves(const SweepRequest& request) {
  const std::vector<std::string> trials = request.query.all("trial");
  if (trials.empty() || trials.size() > kCurvesAnAnswer)
    return Error{Errc::InvalidArgument,
                 fmt::format("{} trials are given, but from 1 to {} are needed", trials.size(),
                             kCurvesAnAnswer)};
  std::uint64_t bytes = kCurveBytesMax;
  JsonWriter json;
  json.object().key("curves").array();
  for (const std::string& text : trials) {
    TRY(const int trial, trial_of(request.sweep, text));
    bool more = false;
    const TrialCurve& curve = request.sweep.curve(trial, bytes, more);
    json.object().member("trial", trial).member("reports", curve.reports());
    json.member("non_finite", curve.non_finite()).member("more", more);
    json.key("time").array();
    for (const CurvePoint& point : curve.points()) json.value(point.time);
    json.end().key("value").array();
    for (const CurvePoint& point : curve.points()) json.value(point.value);
    json.end().end();
  }
  json.end().end();
  return json_response(std::move(json));
}

}  // namespace train
