#include "launcher/cluster/sweep/sweep_view.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>

#include "launcher/core/search/search_json.h"

namespace train {
namespace {

constexpr std::size_t kValueBytesMax = 60;  // of one parameter

std::string value_text(const boost::json::value& value) {
  if (value.is_double()) return short_number(value.as_double());
  std::string text =
      value.is_string() ? std::string(value.as_string().subview()) : boost::json::serialize(value);
  if (text.size() > kValueBytesMax) text.replace(kValueBytesMax, std::string::npos, "...");
  return text;
}

std::string_view state_of(const TrialState& trial) {
  return trial.ended ? kTrialEnds[static_cast<std::size_t>(trial.ended->end)] : "running";
}

}  // namespace

std::string parameters_text(const SearchSpec& spec, const boost::json::object& values) {
  std::string text;
  for (const Parameter& parameter : spec.parameters) {
    if (parameter.kind == ParameterKind::Const) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", parameter.path,
                        value_text(values.at(parameter.path)));
  }
  return text;
}

SweepRow sweep_row(const SearchController& search, int trial) {
  const TrialState& state = search.trials()[static_cast<std::size_t>(trial)];
  return {.trial = trial,
          .state = std::string(state_of(state)),
          .time = state.time,
          .value = state.value,
          .best = state.best,
          .parameters = parameters_text(search.spec(), state.values),
          .cause = state.ended ? state.ended->cause : ""};
}

SweepTable sweep_table_of(const SearchController& search) {
  const SearchSpec& spec = search.spec();
  SweepTable table{.metric = spec.metric,
                   .time = spec.time_attribute.empty() ? "report" : spec.time_attribute,
                   .trials = search.trials_in_all(),
                   .best = search.best()};
  for (std::size_t i = 0; i < search.trials().size(); ++i)
    table.rows.push_back(sweep_row(search, static_cast<int>(i)));
  return table;
}

boost::json::object trial_json(const SearchController& search, int trial) {
  const TrialState& state = search.trials()[static_cast<std::size_t>(trial)];
  boost::json::object json{{"trial", trial},
                           {"state", state_of(state)},
                           {"parameters", state.values},
                           {"time", json_number(state.time)},
                           {"value", json_number(state.value)},
                           {"best", json_number(state.best)},
                           {"best_time", json_number(state.best_time)}};
  if (state.from) {
    json["part"] = state.part;
    json["from"] = state.from->from;
  }
  if (state.ended) {
    json["code"] = state.ended->code;
    json["cause"] = state.ended->cause;
  }
  return json;
}

}  // namespace train
