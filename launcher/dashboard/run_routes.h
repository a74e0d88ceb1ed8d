// The routes of the JSON API below /api/v1/runs/{run}: functions from what is known of the run, and
// the query, to the answer. Calls block on the disk.
#pragma once

#include <string>
#include <vector>

#include "launcher/dashboard/run_data.h"
#include "lib/http/request.h"
#include "lib/http/response.h"

namespace train {

struct RunRequest {
  RunData& run;
  const HttpQuery& query;
  const std::vector<std::string>& parts;  // the values of {…} in the route, after that of {run}
  bool actions = false;                   // POST is allowed
};

Result<HttpResponse> answer_run(const RunRequest& request);
Result<HttpResponse> answer_events(const RunRequest& request);
Result<HttpResponse> answer_spec(const RunRequest& request);
Result<HttpResponse> answer_attempts(const RunRequest& request);
Result<HttpResponse> answer_ranks(const RunRequest& request);
Result<HttpResponse> answer_rank(const RunRequest& request);
Result<HttpResponse> answer_environment(const RunRequest& request);
Result<HttpResponse> answer_checkpoints(const RunRequest& request);
Result<HttpResponse> answer_data(const RunRequest& request);
Result<HttpResponse> answer_nodes(const RunRequest& request);
Result<HttpResponse> answer_goodput(const RunRequest& request);
Result<HttpResponse> answer_metric_keys(const RunRequest& request);
Result<HttpResponse> answer_metrics(const RunRequest& request);
Result<HttpResponse> answer_samples(const RunRequest& request);
Result<HttpResponse> answer_logs(const RunRequest& request);
Result<HttpResponse> answer_files(const RunRequest& request);
Result<HttpResponse> answer_file(const RunRequest& request);

}  // namespace train
