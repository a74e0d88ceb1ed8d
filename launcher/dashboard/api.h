// The routes of the JSON API (openapi.yaml), each a function from a request to an answer. Calls
// block on the disk; any thread may call.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "launcher/dashboard/run_catalog.h"
#include "launcher/dashboard/run_tasks.h"
#include "lib/http/request.h"
#include "lib/http/response.h"

namespace train {

struct ApiFacts {
  std::string version;
  bool actions = false;       // POST is allowed
  std::string address;        // "127.0.0.1:7080", as Prometheus reaches it
  int node_metrics_port = 0;  // where each traind of a run serves metrics; 0: nowhere
};

class Api {
 public:
  /// `catalog` and `tasks` outlive this object.
  Api(RunCatalog& catalog, RunTasks& tasks, ApiFacts facts)
      : catalog_(catalog), tasks_(tasks), facts_(std::move(facts)) {}

  /// Answer a request below /api/v1, or for /metrics.
  HttpResponse answer(const HttpRequest& request);

  /// Return "GET /api/v1/runs/{run}" for each route.
  static std::vector<std::string> routes();

 private:
  struct Route;
  using Parts = std::vector<std::string>;  // the values of {…} in the route, in order
  static const std::vector<Route>& all_routes();

  Result<HttpResponse> of_run(const HttpRequest& request, const Route& route, const Parts& parts);
  Result<HttpResponse> of_sweep(const HttpRequest& request, const Route& route, const Parts& parts);
  void used(const std::shared_ptr<RunReader>& run);
  Result<HttpResponse> about(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> runs(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> sweeps(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> task(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> take_stacks(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> profile(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> checkpoint(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> stop(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> targets(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> metrics(const HttpRequest& request, const Parts& parts);

  static constexpr std::size_t kUsedMax = 6;  // runs whose metrics stay in memory

  RunCatalog& catalog_;
  RunTasks& tasks_;
  const ApiFacts facts_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<RunReader>> used_;  // the newest last
};

}  // namespace train
