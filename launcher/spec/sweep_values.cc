// Writes `sweep:` in the spec's own syntax, for the resolved spec, and makes its JSON Schema.
#include "launcher/core/search/search_json.h"
#include "launcher/spec/sweep_reader.h"
#include "lib/base/overloaded.h"

namespace train::spec {
namespace {

namespace json = boost::json;

json::object pbt_value(const PbtSpec& pbt) {
  json::object value{{"interval", pbt.interval},
                     {"burn_in", pbt.burn_in},
                     {"quantile", pbt.quantile},
                     {"resample", pbt.resample}};
  if (!pbt.mutate.empty()) value["mutate"] = json::array(pbt.mutate.begin(), pbt.mutate.end());
  return value;
}

json::value scheduler_value(const SchedulerSpec& scheduler) {
  return std::visit(
      Overloaded{[](const NoScheduler&) -> json::value { return "none"; },
                 [](const AshaSpec& asha) -> json::value {
                   return json::object{
                       {"asha",
                        json::object{{"max_time", asha.max_time},
                                     {"divisor", asha.divisor},
                                     {"max_rungs", asha.max_rungs},
                                     {"mode", kAshaModes[static_cast<std::size_t>(asha.mode)]}}}};
                 },
                 [](const MedianSpec& median) -> json::value {
                   return json::object{
                       {"median_stopping", json::object{{"grace_time", median.grace_time},
                                                        {"min_samples", median.min_samples}}}};
                 },
                 [](const PbtSpec& pbt) -> json::value {
                   return json::object{{"pbt", pbt_value(pbt)}};
                 }},
      scheduler);
}

json::object closed(json::object properties) {
  return {
      {"type", "object"}, {"properties", std::move(properties)}, {"additionalProperties", false}};
}
json::object whole(std::int64_t min, std::int64_t max, std::string_view what) {
  return {{"type", "integer"}, {"minimum", min}, {"maximum", max}, {"description", what}};
}
json::object text(std::string_view what) {
  return {{"type", "string"}, {"minLength", 1}, {"description", what}};
}
json::object share(double max, std::string_view what) {
  return {{"type", "number"}, {"minimum", 0}, {"maximum", max}, {"description", what}};
}
template <class Words>
json::object words(const Words& choices, std::string_view what) {
  return {{"enum", json::array(choices.begin(), choices.end())}, {"description", what}};
}

json::object scheduler_schema() {
  json::object asha = closed({
      {"max_time", whole(1, std::int64_t{1} << 53, "The time of the last rung.")},
      {"divisor", whole(2, 1000, "The best 1/divisor of the trials at a rung go on.")},
      {"max_rungs", whole(1, 20, "How many rungs there are at most.")},
      {"mode", words(kAshaModes, "Which brackets there are.")},
  });
  asha["required"] = json::array{"max_time"};
  json::object median = closed({
      {"grace_time", whole(0, std::int64_t{1} << 53, "No trial stops before this time.")},
      {"min_samples", whole(1, kTrialsMax, "How many others must have come so far.")},
  });
  json::object pbt = closed({
      {"interval", whole(1, std::int64_t{1} << 53, "How often trials are compared.")},
      {"burn_in", whole(0, std::int64_t{1} << 53, "No trial is compared before this time.")},
      {"quantile", share(0.5, "The share of trials that take over from as many of the best.")},
      {"resample", share(1, "The chance that a value is drawn anew.")},
      {"mutate", json::object{{"type", "array"},
                              {"maxItems", kParametersMax},
                              {"items", text("A parameter.")},
                              {"description", "The parameters that change; default: all."}}},
      {"synchronous", json::object{{"const", false}, {"description", "Trials do not wait."}}},
  });
  json::object one = closed(
      {{"asha", std::move(asha)}, {"median_stopping", std::move(median)}, {"pbt", std::move(pbt)}});
  one["minProperties"] = 1;
  one["maxProperties"] = 1;
  return {
      {"description", "Which trials stop before their own end, or go on from others."},
      {"oneOf", json::array{json::object{{"enum", json::array{"none", "median_stopping", "pbt"}}},
                            std::move(one)}}};
}

json::object search_schema() {
  json::object command =
      closed({{"command",
               json::object{{"type", "array"}, {"minItems", 1}, {"items", {{"type", "string"}}}}}});
  command["required"] = json::array{"command"};
  json::array words(kSearchKinds.begin(), kSearchKinds.begin() + 3);
  return {{"description", "Which values are tried, or a program that proposes them."},
          {"oneOf", json::array{json::object{{"enum", std::move(words)}}, std::move(command)}}};
}

}  // namespace

json::object sweep_values(const SearchSpec& sweep) {
  json::object values{{"metric", sweep.metric},
                      {"mode", kSearchModes[static_cast<std::size_t>(sweep.mode)]}};
  if (!sweep.time_attribute.empty()) values["time_attribute"] = sweep.time_attribute;
  if (sweep.search == SearchKind::Command)
    values["search"] = {{"command", json::array(sweep.command.begin(), sweep.command.end())}};
  else
    values["search"] = kSearchKinds[static_cast<std::size_t>(sweep.search)];
  values["num_trials"] = sweep.num_trials;
  if (sweep.max_concurrent_trials) values["max_concurrent_trials"] = *sweep.max_concurrent_trials;
  if (sweep.keep_trials) values["keep_trials"] = *sweep.keep_trials;
  if (sweep.lock_step) values["lock_step"] = true;
  values["seed"] = sweep.seed;
  if (!sweep.points.empty())
    values["points"] = json::array(sweep.points.begin(), sweep.points.end());
  json::object parameters;
  for (const Parameter& parameter : sweep.parameters)
    parameters[parameter.path] = json_range(parameter);
  values["parameters"] = std::move(parameters);
  values["scheduler"] = scheduler_value(sweep.scheduler);
  return values;
}

json::object sweep_schema() {
  json::object schema = closed({
      {"metric", text("The metric of rank 0's reports by which trials are compared.")},
      {"mode", words(kSearchModes, "Whether the least or the greatest value is the best.")},
      {"time_attribute", text("A metric that grows, such as epoch; default: the number of "
                              "reports.")},
      {"search", search_schema()},
      {"num_trials", whole(1, kTrialsMax,
                           "Trials of a random search; of a searcher, how many at most; of a "
                           "grid, trials of each point.")},
      {"max_concurrent_trials",
       whole(1, kConcurrentTrialsMax, "How many trials run at once, if so many fit.")},
      {"keep_trials",
       json::object{{"description", "How many of the best trials keep their checkpoints."},
                    {"oneOf", json::array{json::object{{"const", "all"}},
                                          whole(1, kTrialsMax, "So many.")}}}},
      {"lock_step", json::object{{"type", "boolean"},
                                 {"description",
                                  "Each report of a trial waits until the scheduler "
                                  "has decided whether the trial goes on."}}},
      {"seed", whole(0, std::numeric_limits<std::int64_t>::max(), "Decides what is drawn.")},
      {"points", json::object{{"type", "array"},
                              {"maxItems", kChoicesMax},
                              {"items", {{"type", "object"}}},
                              {"description", "Values to try first."}}},
      {"parameters",
       json::object{{"type", "object"},
                    {"minProperties", 1},
                    {"maxProperties", kParametersMax},
                    {"description", "Parameter of train_loop_config, or spec.KEY → its values."}}},
      {"scheduler", scheduler_schema()},
  });
  schema["required"] = json::array{"metric", "parameters"};
  return schema;
}

}  // namespace train::spec
