#include "tests/fakes/mlflow_server.h"

#include <boost/json.hpp>

namespace train::fakes {
namespace {

namespace json = boost::json;

WebAnswer good(const json::object& body) { return {200, json::serialize(body), ""}; }
WebAnswer bad(long status, const char* code, const std::string& message) {
  return {status, json::serialize(json::object{{"error_code", code}, {"message", message}}), ""};
}
std::string text(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return "";
  return value->is_string() ? std::string(value->as_string()) : json::serialize(*value);
}
json::array pairs(const std::map<std::string, std::string>& texts) {
  json::array array;
  for (const auto& [key, value] : texts)
    array.push_back(json::object{{"key", key}, {"value", value}});
  return array;
}
bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= 250 && name.find_first_of("()[]%#'\"") == name.npos;
}

}  // namespace

WebAnswer MlflowServer::ask(const WebRequest& request) {
  if (away) return {0, "", "connection refused"};
  const std::lock_guard lock(mutex_);
  const std::string api = "/api/2.0/";
  const std::size_t at = request.url.find(api);
  if (at == std::string::npos) return bad(404, "ENDPOINT_NOT_FOUND", request.url);
  std::string what = request.url.substr(at + api.size());
  asked_.push_back(std::string(request.method) + " " + what.substr(what.find('/') + 1));
  WebAnswer reply = answer(what, request);
  if (loses_answers) return {0, "", "the connection was reset"};
  return reply;
}

WebAnswer MlflowServer::answer(const std::string& what, const WebRequest& request) {
  const std::string files = "mlflow-artifacts/artifacts";
  if (what.starts_with(files)) {
    files_[what.substr(files.size())] = request.body;
    return good({});
  }
  const std::string name_query = "mlflow/experiments/get-by-name?experiment_name=";
  if (what.starts_with(name_query)) {
    const auto found = experiments_.find(what.substr(name_query.size()));
    if (found == experiments_.end()) return bad(404, "RESOURCE_DOES_NOT_EXIST", "no experiment");
    return good({{"experiment", json::object{{"experiment_id", found->second}}}});
  }
  const std::string run_query = "mlflow/runs/get?run_id=";
  if (what.starts_with(run_query)) {
    const std::string id = what.substr(run_query.size());
    if (!runs_.contains(id)) return bad(404, "RESOURCE_DOES_NOT_EXIST", "no run");
    return good({{"run", shown(id)}});
  }
  const json::object body = json::parse(request.body).as_object();
  if (what == "mlflow/experiments/create") {
    const std::string id = std::to_string(experiments_.size());
    if (!experiments_.emplace(text(body, "name"), id).second)
      return bad(400, "RESOURCE_ALREADY_EXISTS", "it exists");
    return good({{"experiment_id", id}});
  }
  if (what == "mlflow/runs/create") {
    const std::string id = "run" + std::to_string(runs_.size());
    Run& run = runs_[id];
    run.experiment = text(body, "experiment_id");
    run.name = text(body, "run_name");
    for (const json::value& tag : body.at("tags").as_array())
      run.tags[text(tag.as_object(), "key")] = text(tag.as_object(), "value");
    return good({{"run", shown(id)}});
  }
  if (what == "mlflow/runs/search") {
    json::array found;
    for (const auto& [id, run] : runs_)
      for (const auto& [key, value] : run.tags)
        if (text(body, "filter") == "tags.`" + key + "` = '" + value + "'")
          found.push_back(shown(id));
    return good({{"runs", std::move(found)}});
  }
  const auto run = runs_.find(text(body, "run_id"));
  if (run == runs_.end()) return bad(404, "RESOURCE_DOES_NOT_EXIST", "no run");
  if (what == "mlflow/runs/update") {
    run->second.status = text(body, "status");
    return good({});
  }
  return what == "mlflow/runs/log-batch" ? batch(body) : bad(404, "ENDPOINT_NOT_FOUND", what);
}

WebAnswer MlflowServer::batch(const json::object& body) {
  Run& run = runs_.at(text(body, "run_id"));
  const json::array& metrics = body.at("metrics").as_array();
  const json::array& params = body.at("params").as_array();
  if (metrics.size() > 1000 || params.size() > 100)
    return bad(400, "INVALID_PARAMETER_VALUE", "too many");
  for (const json::value& metric : metrics)
    if (!is_name(text(metric.as_object(), "key")))
      return bad(400, "INVALID_PARAMETER_VALUE", "Invalid metric name");
  for (const json::value& param : params) {
    const std::string key = text(param.as_object(), "key");
    const std::string value = text(param.as_object(), "value");
    if (!run.params.emplace(key, value).second && run.params[key] != value)
      return bad(400, "INVALID_PARAMETER_VALUE", "Changing param values is not allowed");
  }
  for (const json::value& item : metrics) {
    const json::object& metric = item.as_object();
    run.metrics[text(metric, "key")].emplace(
        metric.at("step").as_int64(), metric.at("timestamp").as_int64(), text(metric, "value"));
  }
  for (const json::value& tag : body.at("tags").as_array())
    run.tags[text(tag.as_object(), "key")] = text(tag.as_object(), "value");
  return good({});
}

json::object MlflowServer::shown(const std::string& id) const {
  const Run& run = runs_.at(id);
  return {
      {"info", json::object{{"run_id", id},
                            {"artifact_uri", "mlflow-artifacts:/" + run.experiment + "/" + id}}},
      {"data", json::object{{"params", pairs(run.params)}, {"tags", pairs(run.tags)}}}};
}

std::map<std::string, MlflowServer::Run> MlflowServer::runs() const {
  const std::lock_guard lock(mutex_);
  return runs_;
}
std::map<std::string, std::string> MlflowServer::files() const {
  const std::lock_guard lock(mutex_);
  return files_;
}
std::vector<std::string> MlflowServer::asked() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

}  // namespace train::fakes
