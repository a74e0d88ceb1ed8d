// The routes of the JSON API (openapi.yaml), each a function from a request to an answer. Calls
// block on the disk; any thread may call.
#pragma once

#include <string>
#include <vector>

#include "launcher/dashboard/run_catalog.h"
#include "lib/http/request.h"
#include "lib/http/response.h"

namespace train {

struct ApiFacts {
  std::string version;
  bool actions = false;  // POST is allowed
};

class Api {
 public:
  /// `catalog` outlives this object.
  Api(RunCatalog& catalog, ApiFacts facts) : catalog_(catalog), facts_(std::move(facts)) {}

  /// Answer a request below /api/v1.
  HttpResponse answer(const HttpRequest& request);

  /// Return "GET /api/v1/runs/{run}" for each route.
  static std::vector<std::string> routes();

 private:
  struct Route;
  using Parts = std::vector<std::string>;  // the values of {…} in the route, in order
  static const std::vector<Route>& all_routes();

  Result<HttpResponse> about(const HttpRequest& request, const Parts& parts);
  Result<HttpResponse> runs(const HttpRequest& request, const Parts& parts);

  RunCatalog& catalog_;
  const ApiFacts facts_;
};

}  // namespace train
