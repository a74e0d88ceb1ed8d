#include "launcher/dashboard/api.h"

#include <fmt/format.h>
#include <unistd.h>

#include <sstream>

#include "launcher/dashboard/run_routes.h"
#include "launcher/dashboard/sweeps/sweep_routes.h"
#include "lib/base/host.h"
#include "lib/base/json_text.h"
#include "lib/base/time.h"
#include "lib/base/user_account.h"

namespace train {
namespace {

std::string now_text() { return format_utc(std::chrono::system_clock::now()); }

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  std::stringstream stream(path);
  for (std::string part; std::getline(stream, part, '/');)
    if (!part.empty()) parts.push_back(part);
  return parts;
}

HttpResponse json_response(JsonWriter&& json) { return {.body = std::move(json).take()}; }

std::string user_name() {
  const auto account = find_account(::geteuid());
  return account ? account->name : std::to_string(::geteuid());
}

}  // namespace

struct Api::Route {
  HttpMethod method;
  std::string path;  // as in openapi.yaml
  Result<HttpResponse> (Api::*answer)(const HttpRequest&, const Parts&) = nullptr;
  Result<HttpResponse> (*of_run)(const RunRequest&) = nullptr;      // of routes about one run
  Result<HttpResponse> (*of_sweep)(const SweepRequest&) = nullptr;  // or one sweep
  std::vector<std::string> pattern = split(path);

  /// Return whether the path is of this route, and what stands in place of its {…}.
  bool matches(const std::vector<std::string>& path, Parts& parts) const {
    const bool rest = pattern.back() == "{id}";  // it may hold slashes
    if (rest ? path.size() < pattern.size() : path.size() != pattern.size()) return false;
    parts.clear();
    for (std::size_t i = 0; i < pattern.size(); ++i) {
      if (pattern[i].starts_with('{'))
        parts.push_back(path[i]);
      else if (pattern[i] != path[i])
        return false;
    }
    for (std::size_t i = pattern.size(); i < path.size(); ++i) parts.back() += "/" + path[i];
    return true;
  }
};

const std::vector<Api::Route>& Api::all_routes() {
  static const std::vector<Route> routes{
      {HttpMethod::Get, "/api/v1/about", &Api::about},
      {HttpMethod::Get, "/api/v1/runs", &Api::runs},
      {HttpMethod::Get, "/api/v1/runs/{run}", nullptr, answer_run},
      {HttpMethod::Get, "/api/v1/runs/{run}/events", nullptr, answer_events},
      {HttpMethod::Get, "/api/v1/runs/{run}/spec", nullptr, answer_spec},
      {HttpMethod::Get, "/api/v1/runs/{run}/attempts", nullptr, answer_attempts},
      {HttpMethod::Get, "/api/v1/runs/{run}/attempts/{attempt}/ranks", nullptr, answer_ranks},
      {HttpMethod::Get, "/api/v1/runs/{run}/attempts/{attempt}/ranks/{rank}", nullptr, answer_rank},
      {HttpMethod::Get, "/api/v1/runs/{run}/attempts/{attempt}/ranks/{rank}/environment", nullptr,
       answer_environment},
      {HttpMethod::Get, "/api/v1/runs/{run}/checkpoints", nullptr, answer_checkpoints},
      {HttpMethod::Get, "/api/v1/runs/{run}/data", nullptr, answer_data},
      {HttpMethod::Get, "/api/v1/runs/{run}/nodes", nullptr, answer_nodes},
      {HttpMethod::Get, "/api/v1/runs/{run}/goodput", nullptr, answer_goodput},
      {HttpMethod::Get, "/api/v1/runs/{run}/metrics/keys", nullptr, answer_metric_keys},
      {HttpMethod::Get, "/api/v1/runs/{run}/metrics", nullptr, answer_metrics},
      {HttpMethod::Get, "/api/v1/runs/{run}/samples", nullptr, answer_samples},
      {HttpMethod::Get, "/api/v1/runs/{run}/logs", nullptr, answer_logs},
      {HttpMethod::Get, "/api/v1/runs/{run}/files", nullptr, answer_files},
      {HttpMethod::Get, "/api/v1/runs/{run}/files/{id}", nullptr, answer_file},
      {HttpMethod::Get, "/api/v1/runs/{run}/tasks/{task}", &Api::task},
      {HttpMethod::Post, "/api/v1/runs/{run}/stacks", &Api::take_stacks},
      {HttpMethod::Post, "/api/v1/runs/{run}/checkpoint", &Api::checkpoint},
      {HttpMethod::Post, "/api/v1/runs/{run}/profile", &Api::profile},
      {HttpMethod::Post, "/api/v1/runs/{run}/stop", &Api::stop},
      {HttpMethod::Get, "/api/v1/sweeps", &Api::sweeps},
      {HttpMethod::Get, "/api/v1/sweeps/{sweep}", nullptr, nullptr, answer_sweep},
      {HttpMethod::Get, "/api/v1/sweeps/{sweep}/trials", nullptr, nullptr, answer_trials},
      {HttpMethod::Get, "/api/v1/sweeps/{sweep}/curves", nullptr, nullptr, answer_curves},
      {HttpMethod::Get, "/api/v1/sd", &Api::targets},
      {HttpMethod::Get, "/metrics", &Api::metrics},
  };
  return routes;
}

std::vector<std::string> Api::routes() {
  std::vector<std::string> names;
  for (const Route& route : all_routes())
    names.push_back((route.method == HttpMethod::Post ? "POST " : "GET ") + route.path);
  return names;
}

HttpResponse Api::answer(const HttpRequest& request) {
  const HttpMethod method = request.method == HttpMethod::Head ? HttpMethod::Get : request.method;
  bool other_method = false;
  Parts parts;
  for (const Route& route : all_routes()) {
    if (!route.matches(request.target.path, parts)) continue;
    if (route.method != method) {
      other_method = true;
      continue;
    }
    auto answer = route.answer != nullptr   ? (this->*route.answer)(request, parts)
                  : route.of_run != nullptr ? of_run(request, route, parts)
                                            : of_sweep(request, route, parts);
    return answer ? std::move(*answer) : problem(answer.error());
  }
  if (other_method)
    return problem(405, {Errc::InvalidArgument, "this address does not take that method"});
  return problem({Errc::NotFound, "no such address", "see /openapi.yaml"});
}

Result<HttpResponse> Api::of_run(const HttpRequest& request, const Route& route,
                                 const Parts& parts) {
  TRY(const std::shared_ptr<RunReader> run, catalog_.find(parts[0]));
  used(run);
  const Parts rest(parts.begin() + 1, parts.end());
  return run->with([&](RunData& data) {
    return route.of_run({data, request.target.query, rest, facts_.actions});
  });
}

Result<HttpResponse> Api::of_sweep(const HttpRequest& request, const Route& route,
                                   const Parts& parts) {
  TRY(const std::shared_ptr<SweepReader> sweep, catalog_.find_sweep(parts[0]));
  return sweep->with([&](SweepData& data) { return route.of_sweep({data, request.target.query}); });
}

void Api::used(const std::shared_ptr<RunReader>& run) {
  std::shared_ptr<RunReader> dropped;
  {
    const std::lock_guard lock(mutex_);
    std::erase(used_, run);
    used_.push_back(run);
    if (used_.size() <= kUsedMax) return;
    dropped = std::move(used_.front());
    used_.pop_front();
  }
  dropped->with([](RunData& data) { data.forget(); });
}

Result<HttpResponse> Api::about(const HttpRequest&, const Parts&) {
  JsonWriter json;
  json.object().member("version", facts_.version).member("host", host_name());
  json.member("user", user_name()).member("actions", facts_.actions).key("places").array();
  for (const PlaceState& place : catalog_.places()) {
    json.object().member("place", place.place).member("runs", place.runs);
    json.text_or_null("error", place.error).end();
  }
  json.end().member("now", now_text()).end();
  return json_response(std::move(json));
}

Result<HttpResponse> Api::runs(const HttpRequest& request, const Parts&) {
  const HttpQuery& query = request.target.query;
  RunQuery wanted;
  TRY_VOID(parse_states(query.text("state"), wanted));
  wanted.text = query.text("q");
  if (const std::string* sort = query.find("sort")) wanted.sort = *sort;
  wanted.descending = query.text("order") != "asc";
  TRY(const std::int64_t skip, query.whole("after", 0, 0, 1'000'000'000));
  TRY(const std::int64_t limit, query.whole("limit", 1000, 1, 5000));
  wanted.skip = static_cast<std::size_t>(skip);
  wanted.limit = static_cast<std::size_t>(limit);
  TRY(const bool with_trials, wants_trials(query));
  std::vector<RunRow> rows;
  for (const auto& run : catalog_.runs())
    if (with_trials || !run->is_trial())
      rows.push_back(run->with([](RunData& data) { return data.row(); }));
  std::size_t matching = 0;
  JsonWriter json;
  json.object().key("runs").array();
  for (const RunRow* row : select_rows(rows, wanted, matching)) {
    json.object();
    put_row(json, *row);
    json.end();
  }
  json.end().member("total", rows.size()).member("matching", matching);
  json.member("now", now_text()).end();
  return json_response(std::move(json));
}

Result<HttpResponse> Api::sweeps(const HttpRequest&, const Parts&) {
  JsonWriter json;
  json.object().key("sweeps").array();
  for (const auto& sweep : catalog_.sweeps()) {
    json.object();
    sweep->with([&](const SweepData& data) { put_sweep_row(json, data); });
    json.end();
  }
  json.end().member("now", now_text()).end();
  return json_response(std::move(json));
}

}  // namespace train
