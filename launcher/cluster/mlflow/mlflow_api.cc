#include "launcher/cluster/mlflow/mlflow_api.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "launcher/cluster/reports/report_sinks.h"
#include "launcher/spec/secrets.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr std::size_t kMessageBytesMax = 500;

bool is_allowed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-./: ").find(c) != std::string_view::npos;
}

std::string value_of(const std::map<std::string, std::string>& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

json::array pairs_of(const MlflowTexts& texts) {
  json::array pairs;
  for (const auto& [key, value] : texts)
    pairs.push_back(json::object{{"key", key}, {"value", value}});
  return pairs;
}

json::value number_of(double value) {
  if (!std::isfinite(value)) return "NaN";  // JSON of Protocol Buffers
  return value;
}

std::optional<double> number_of(const MetricValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1.0 : 0.0;
  return std::nullopt;
}

std::string text_of(const MetricValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  return fmt::format("{}", std::get<double>(value));
}

}  // namespace

Result<MlflowOptions> mlflow_options(const std::map<std::string, std::string>& environment) {
  constexpr const char* kUri = "MLFLOW_TRACKING_URI";
  MlflowOptions options;
  options.uri = value_of(environment, kUri);
  if (options.uri.empty())
    return Error{Errc::InvalidSpec,
                 "run_config.callbacks has mlflow, and MLFLOW_TRACKING_URI is not set",
                 "set it to the server's address, such as http://mlflow:5000, or remove mlflow"};
  if (!spec::is_web_url(options.uri))
    return Error{Errc::InvalidSpec, "MLFLOW_TRACKING_URI is not an http:// or https:// address",
                 "start a server for it: mlflow server"};
  while (options.uri.ends_with('/')) options.uri.pop_back();
  if (auto name = value_of(environment, "MLFLOW_EXPERIMENT_NAME"); !name.empty())
    options.experiment_name = std::move(name);
  options.experiment_id = value_of(environment, "MLFLOW_EXPERIMENT_ID");
  options.run_id = value_of(environment, "MLFLOW_RUN_ID");
  const std::string token = value_of(environment, "MLFLOW_TRACKING_TOKEN");
  const std::string user = value_of(environment, "MLFLOW_TRACKING_USERNAME");
  if (!user.empty())
    options.user = user + ":" + value_of(environment, "MLFLOW_TRACKING_PASSWORD");
  else if (!token.empty())
    options.headers.push_back("Authorization: Bearer " + token);
  options.ca_file = value_of(environment, "MLFLOW_TRACKING_SERVER_CERT_PATH");
  options.verify = value_of(environment, "MLFLOW_TRACKING_INSECURE_TLS") != "true";
  return options;
}

std::string mlflow_name(std::string_view name) {
  std::string allowed, part;
  const auto end_part = [&] {
    if (part.empty() || part == "." || part == "..") part = "_";
    allowed += allowed.empty() ? part : "/" + part;
    part.clear();
  };
  for (const char c : name.substr(0, kMlflowNameBytesMax)) {
    if (c == '/')
      end_part();
    else
      part += is_allowed(c) ? c : '_';
  }
  end_part();
  return allowed.substr(0, kMlflowNameBytesMax);
}

std::vector<MlflowPoint> mlflow_points(const ReportRecord& report, std::int64_t step) {
  std::vector<MlflowPoint> points;
  for (const auto& [name, value] : report.metrics) {
    const auto number = number_of(value);
    if (number) points.push_back({mlflow_name(name), *number, report.wall_us / 1000, step});
  }
  return points;
}

MlflowTexts mlflow_params(const JobSpec& spec) {
  MlflowTexts params;
  for (const auto& [name, value] : hparams_of(spec))
    params[mlflow_name(name)] = utf8_text(text_of(value), kMlflowParamBytesMax);
  const ScalingConfig& scaling = spec.scaling_config;
  const WorkerCount workers = scaling.num_workers;
  params["trainrun.num_workers"] = workers.elastic()
                                       ? fmt::format("{}-{}", workers.min, workers.max)
                                       : std::to_string(workers.max);
  params["trainrun.use_gpu"] = scaling.use_gpu ? "true" : "false";
  return params;
}

void keep_params(MlflowTexts& wanted, const MlflowTexts& there, MlflowTexts& tags) {
  for (const auto& [key, value] : there) {
    const auto found = wanted.find(key);
    if (found == wanted.end()) continue;
    if (found->second != value) tags["trainrun.param." + key] = found->second;
    wanted.erase(found);
  }
}

std::string mlflow_create_run(std::string_view experiment_id, std::string_view name,
                              std::int64_t start_ms, const MlflowTexts& tags) {
  return json::serialize(json::object{{"experiment_id", experiment_id},
                                      {"run_name", name},
                                      {"start_time", start_ms},
                                      {"tags", pairs_of(tags)}});
}

std::string mlflow_find_run(std::string_view experiment_id, std::string_view tag,
                            std::string_view value) {
  return json::serialize(json::object{{"experiment_ids", json::array{json::string(experiment_id)}},
                                      {"filter", fmt::format("tags.`{}` = '{}'", tag, value)},
                                      {"max_results", 1}});
}

std::string mlflow_batch(std::string_view run_id, std::span<const MlflowPoint> points,
                         const MlflowTexts& params, const MlflowTexts& tags) {
  json::array metrics;
  for (const MlflowPoint& point : points)
    metrics.push_back(json::object{{"key", point.key},
                                   {"value", number_of(point.value)},
                                   {"timestamp", point.time_ms},
                                   {"step", point.step}});
  return json::serialize(json::object{{"run_id", run_id},
                                      {"metrics", std::move(metrics)},
                                      {"params", pairs_of(params)},
                                      {"tags", pairs_of(tags)}});
}

std::string mlflow_update(std::string_view run_id, std::string_view status, std::int64_t end_ms) {
  json::object update{{"run_id", run_id}, {"status", status}};
  if (end_ms > 0) update["end_time"] = end_ms;
  return json::serialize(update);
}

std::string_view mlflow_status(Outcome outcome) {
  switch (outcome) {
    case Outcome::Succeeded:
      return "FINISHED";
    case Outcome::Interrupted:
    case Outcome::Preempted:
      return "KILLED";
    case Outcome::Failed:
    case Outcome::Refused:
    case Outcome::Replaced:
      break;
  }
  return "FAILED";
}

std::string mlflow_artifact_path(std::string_view artifact_uri, std::string_view name) {
  constexpr std::string_view kProxied = "mlflow-artifacts:";
  if (!artifact_uri.starts_with(kProxied)) return "";
  std::string_view place = artifact_uri.substr(kProxied.size());
  if (place.starts_with("//")) {  // mlflow-artifacts://host:port/place
    place.remove_prefix(2);
    place.remove_prefix(std::min(place.size(), place.find('/')));
  }
  if (!place.starts_with('/')) return "";
  return fmt::format("/api/2.0/mlflow-artifacts/artifacts{}/{}", place, name);
}

Result<json::object> mlflow_answer(const WebAnswer& answer) {
  if (answer.status == 0) return Error{Errc::Unavailable, answer.failure};
  boost::system::error_code ec;
  json::value body = json::parse(answer.body, ec);
  if (ec || !body.is_object()) body = json::object{};
  if (answer.good()) return std::move(body.as_object());
  const json::value* message = body.as_object().if_contains("message");
  std::string text = message != nullptr && message->is_string()
                         ? std::string(message->as_string())
                         : fmt::format("status {}", answer.status);
  const json::value* code = body.as_object().if_contains("error_code");
  if (code != nullptr && code->is_string())
    text = fmt::format("{}: {}", std::string_view(code->as_string()), text);
  const Errc kind = answer.status == 404               ? Errc::NotFound
                    : worth_another_try(answer.status) ? Errc::Unavailable
                                                       : Errc::InvalidArgument;
  return Error{kind, utf8_text(text, kMessageBytesMax)};
}

}  // namespace train
