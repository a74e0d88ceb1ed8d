#include "launcher/core/search/searcher_messages.h"

#include <fmt/format.h>

#include "launcher/core/search/search_json.h"
#include "launcher/core/search/trial_values.h"

namespace train {
namespace {

namespace json = boost::json;

json::object parameter_message(const Parameter& parameter) {
  json::object message{{"name", parameter.path}};
  for (auto& [key, value] : json_range(parameter)) message[key] = value;
  return message;
}

json::object trial_message(int trial, const TrialState& state) {
  return {{"trial", trial},
          {"parameters", state.values},
          {"state", state.ended ? kTrialEnds[static_cast<std::size_t>(state.ended->end)]
                                : std::string_view("running")},
          {"value", json_number(state.best)}};
}

Error wrong(std::string what) {
  return {Errc::InvalidArgument, std::move(what),
          "docs/sweep.md, \"A searcher of your own\", shows what it may write"};
}

std::optional<int> trial_in(const json::value& value) {
  if (!value.is_int64() || value.as_int64() < 0 || value.as_int64() >= kTrialsMax)
    return std::nullopt;
  return static_cast<int>(value.as_int64());
}

}  // namespace

json::object begin_message(const SearchController& search, const std::string& sweep) {
  const SearchSpec& spec = search.spec();
  json::array parameters, trials;
  for (const Parameter& parameter : spec.parameters)
    parameters.push_back(parameter_message(parameter));
  for (std::size_t i = 0; i < search.trials().size(); ++i)
    trials.push_back(trial_message(static_cast<int>(i), search.trials()[i]));
  return {{"begin",
           {{"sweep", sweep},
            {"metric", spec.metric},
            {"mode", kSearchModes[static_cast<std::size_t>(spec.mode)]},
            {"num_trials", spec.num_trials},
            {"seed", spec.seed},
            {"parameters", std::move(parameters)},
            {"points", json::array(spec.points.begin(), spec.points.end())},
            {"trials", std::move(trials)}}}};
}

json::object ask_message(int trial) { return {{"ask", trial}}; }

json::object report_message(const TrialReported& report) {
  return {{"report",
           {{"trial", report.trial}, {"time", report.time}, {"value", json_number(report.value)}}}};
}

json::object tell_message(int trial, const TrialState& state) {
  return {{"tell", trial_message(trial, state)}};
}

Result<SearcherAnswer> read_answer(const json::value& line, const SearchSpec& spec,
                                   std::optional<int> asked) {
  if (!line.is_object()) return wrong("is no JSON object");
  const json::object& answer = line.as_object();
  if (const auto* stop = answer.if_contains("stop"); stop != nullptr) {
    const auto trial = trial_in(*stop);
    if (!trial || answer.size() != 1) return wrong("is to stop a trial, and names none");
    return SearcherAnswer{TrialPruned{*trial}};
  }
  if (const auto* done = answer.if_contains("done"); done != nullptr) {
    if (*done != true || answer.size() != 1) return wrong("is not {\"done\": true}");
    return SearcherAnswer{SearcherDone{}};
  }
  const auto *number = answer.if_contains("trial"), *values = answer.if_contains("parameters");
  if (number == nullptr || values == nullptr || answer.size() != 2)
    return wrong(
        "is none of {\"trial\": 0, \"parameters\": {…}}, {\"stop\": 0} and {\"done\": true}");
  const auto trial = trial_in(*number);
  if (!trial || trial != asked) return wrong("proposes a trial that it was not asked for");
  if (!values->is_object()) return wrong("has parameters that are no JSON object");
  auto proposed = proposed_values(spec, values->as_object());
  if (!proposed)
    return wrong(fmt::format("proposes parameters of which {}", proposed.error().message));
  return SearcherAnswer{TrialProposed{*trial, std::move(*proposed)}};
}

}  // namespace train
