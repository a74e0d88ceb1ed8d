// What MLflow's REST API is sent, and how its limits are kept: names, sizes, kinds of values. Pure.
// https://mlflow.org/docs/latest/rest-api.html
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/report/failure_text.h"
#include "lib/base/metrics.h"
#include "lib/base/result.h"
#include "lib/http_client/http_request.h"

namespace train {

/// A server takes 1,000 metrics in a batch.
inline constexpr std::size_t kMlflowBatchMax = 900;
inline constexpr std::size_t kMlflowParamsMax = 100;  // in a batch
inline constexpr std::size_t kMlflowNameBytesMax = 250;
inline constexpr std::size_t kMlflowParamBytesMax = 500;  // older servers take no more
inline constexpr std::size_t kMlflowTagBytesMax = 5000;

/// Where to log, from MLflow's own variables.
struct MlflowOptions {
  std::string uri = {};  // without '/' at its end
  std::string experiment_name = "Default", experiment_id = {};
  std::string run_id = {};                // log to this run; empty: make one
  std::vector<std::string> headers = {};  // that prove who we are
  std::string user = {};                  // "<name>:<password>"
  std::string ca_file = {};
  bool verify = true;
};
/// Read MLFLOW_TRACKING_URI, _USERNAME, _PASSWORD, _TOKEN, _INSECURE_TLS, _SERVER_CERT_PATH,
/// MLFLOW_EXPERIMENT_NAME, _ID and MLFLOW_RUN_ID. InvalidSpec if there is no server.
Result<MlflowOptions> mlflow_options(const std::map<std::string, std::string>& environment);

struct MlflowPoint {
  std::string key;
  double value = 0;
  std::int64_t time_ms = 0, step = 0;
  bool operator==(const MlflowPoint&) const = default;
};
using MlflowTexts = std::map<std::string, std::string>;  // params, tags

/// Return the name as MLflow takes it: letters, digits and _-./: with '_' for all else, without
/// parts that a path must not have, and cut.
std::string mlflow_name(std::string_view name);
/// Return the report's numbers.
std::vector<MlflowPoint> mlflow_points(const ReportRecord& report, std::int64_t step);
/// Return train_loop_config and the size of the group, flattened ("optimizer.lr"). Secrets are
/// redacted.
MlflowTexts mlflow_params(const JobSpec& spec);
/// Divide what a run is to have among its params, and tags for those that it already has with
/// another value: a param never changes.
void keep_params(MlflowTexts& wanted, const MlflowTexts& there, MlflowTexts& tags);

std::string mlflow_create_run(std::string_view experiment_id, std::string_view name,
                              std::int64_t start_ms, const MlflowTexts& tags);
std::string mlflow_find_run(std::string_view experiment_id, std::string_view tag,
                            std::string_view value);
/// Numbers that are not finite are NaN, as in metrics.jsonl.
std::string mlflow_batch(std::string_view run_id, std::span<const MlflowPoint> points,
                         const MlflowTexts& params, const MlflowTexts& tags);
std::string mlflow_update(std::string_view run_id, std::string_view status, std::int64_t end_ms);
/// Return FINISHED, FAILED or KILLED.
std::string_view mlflow_status(Outcome outcome);

/// Return the path below the server's address to which a file of a run is put; empty if the run's
/// artifacts are at a place that only MLflow's own client can write.
std::string mlflow_artifact_path(std::string_view artifact_uri, std::string_view name);

/// Return the body of a good answer. NotFound, Unavailable (another try may help) or
/// InvalidArgument, with the server's words.
Result<boost::json::object> mlflow_answer(const WebAnswer& answer);

}  // namespace train
