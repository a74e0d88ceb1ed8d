// The routes that ask running runs for something, and those for Prometheus.
#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <set>

#include "launcher/dashboard/api.h"
#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/prometheus_text.h"
#include "launcher/report/rank_set.h"
#include "lib/net/endpoint.h"
#include "lib/profile/profile.h"

namespace train {
namespace {

constexpr std::size_t kTargetsMax = 10'000;

Result<boost::json::object> body_of(const HttpRequest& request) {
  if (request.body.empty()) return boost::json::object{};
  boost::system::error_code failed;
  auto json = boost::json::parse(request.body, failed);
  if (!failed && json.is_object()) return std::move(json.get_object());
  return Error{Errc::InvalidArgument, "the body is no JSON object"};
}

/// Return the ranks below `world_size` that the text names; "": all, which is an empty list.
Result<std::vector<Rank>> ranks_of(const std::string& text, std::int64_t world_size) {
  std::vector<Rank> ranks;
  if (text.empty()) return ranks;
  TRY(const RankSet set, RankSet::parse(text));
  for (std::int32_t rank = 0; rank < world_size; ++rank)
    if (set.contains(rank)) ranks.push_back(Rank{rank});
  if (ranks.empty())
    return Error{Errc::InvalidArgument,
                 fmt::format("the run has {} ranks, and none of {}", world_size, text)};
  return ranks;
}

/// Read a ProfileWanted (openapi.yaml).
Result<ProfileRequest> profile_wanted(const boost::json::object& body, std::int64_t world_size) {
  constexpr std::int64_t kSecondsMax = kProfileTimeMax / seconds(1);
  const auto rank = whole_member(body, "rank");
  if (!rank || *rank < 0 || *rank >= world_size)
    return Error{Errc::InvalidArgument,
                 fmt::format("\"rank\" is none of the run's {} ranks", world_size)};
  ProfileRequest wanted{.rank = Rank{static_cast<std::int32_t>(*rank)}};
  if (body.contains("kind")) {
    const auto kind = profile_kind(text_member(body, "kind"));
    if (!kind) return Error{Errc::InvalidArgument, "\"kind\" is none of cpu, wall and memory"};
    wanted.kind = *kind;
  }
  if (body.contains("seconds")) {
    const auto whole = whole_member(body, "seconds");
    if (!whole || *whole < 1 || *whole > kSecondsMax)
      return Error{Errc::InvalidArgument,
                   fmt::format("\"seconds\" is no whole number from 1 to {}", kSecondsMax)};
    wanted.time = seconds(*whole);
  }
  return wanted;
}

HttpResponse task_response(int status, const RunTask& task) {
  JsonWriter json;
  put_task(json, task);
  return {.status = status, .body = std::move(json).take()};
}

}  // namespace

Result<HttpResponse> Api::task(const HttpRequest&, const Parts& parts) {
  TRY(const std::shared_ptr<RunReader> run, catalog_.find(parts[0]));
  TRY(const RunTask task, run->with([&](RunData& data) { return tasks_.find(data, parts[1]); }));
  return task_response(200, task);
}

Result<HttpResponse> Api::take_stacks(const HttpRequest& request, const Parts& parts) {
  TRY(const std::shared_ptr<RunReader> run, catalog_.find(parts[0]));
  TRY(const boost::json::object body, body_of(request));
  return run->with([&](RunData& data) -> Result<HttpResponse> {
    const AttemptView* newest = data.view().newest();
    TRY(const std::vector<Rank> ranks,
        ranks_of(text_member(body, "ranks"), newest != nullptr ? newest->workers : 0));
    TRY(const RunTask task, tasks_.take_stacks(data, ranks));
    return task_response(202, task);
  });
}

Result<HttpResponse> Api::profile(const HttpRequest& request, const Parts& parts) {
  TRY(const std::shared_ptr<RunReader> run, catalog_.find(parts[0]));
  TRY(const boost::json::object body, body_of(request));
  return run->with([&](RunData& data) -> Result<HttpResponse> {
    const AttemptView* newest = data.view().newest();
    TRY(const ProfileRequest wanted, profile_wanted(body, newest != nullptr ? newest->workers : 0));
    TRY(const RunTask task, tasks_.take_profile(data, wanted));
    return task_response(202, task);
  });
}

Result<HttpResponse> Api::checkpoint(const HttpRequest&, const Parts& parts) {
  TRY(const std::shared_ptr<RunReader> run, catalog_.find(parts[0]));
  TRY(const RunTask task, run->with([&](RunData& data) { return tasks_.checkpoint(data); }));
  return task_response(202, task);
}

Result<HttpResponse> Api::stop(const HttpRequest&, const Parts& parts) {
  TRY(const std::shared_ptr<RunReader> run, catalog_.find(parts[0]));
  TRY(const RunTask task, run->with([&](RunData& data) { return tasks_.stop(data); }));
  return task_response(202, task);
}

Result<HttpResponse> Api::targets(const HttpRequest&, const Parts&) {
  std::set<std::string> nodes;
  for (const auto& run : catalog_.runs()) {
    if (facts_.node_metrics_port == 0) break;
    run->with([&](RunData& data) {
      if (!data.live()) return;
      for (const std::string& address : data.view().cluster_nodes) {
        const auto endpoint = parse_endpoint(address);
        if (endpoint && endpoint->kind == Endpoint::Tcp && nodes.size() < kTargetsMax)
          nodes.insert(Endpoint::tcp(endpoint->host_or_path,
                                     static_cast<std::uint16_t>(facts_.node_metrics_port))
                           .text());
      }
    });
  }
  JsonWriter json;
  const auto put_target = [&](const std::string& target, const char* role) {
    json.object().key("targets").array().value(target).end();
    json.key("labels").object().member("__meta_trainrun_role", role).end().end();
  };
  json.array();
  put_target(facts_.address, "dashboard");
  for (const std::string& node : nodes) put_target(node, "node");
  json.end();
  return HttpResponse{.body = std::move(json).take()};
}

Result<HttpResponse> Api::metrics(const HttpRequest&, const Parts&) {
  std::vector<RunMetrics> all;
  for (const auto& run : catalog_.runs()) {
    run->with([&](RunData& data) {
      RunMetrics one{.row = data.row(),
                     .failed_attempts = data.view().attempts_failed,
                     .checkpoints = data.view().checkpoints};
      one.ingest = data.view().ingest.counts(one.row.live);
      if (one.row.live) one.samples = data.samples();
      all.push_back(std::move(one));
    });
  }
  return HttpResponse{
      .content_type = "text/plain; version=0.0.4; charset=utf-8",
      .body = prometheus_text(all, facts_.version, std::chrono::system_clock::now())};
}

}  // namespace train
