#include "launcher/core/search/sweep_records.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "launcher/core/search/search_json.h"
#include "launcher/core/search/trial_values.h"
#include "lib/base/exit_code.h"

namespace train {
namespace {

const boost::json::value* member(const boost::json::object& record, std::string_view name) {
  return record.if_contains(name);
}

std::optional<double> number_in(const boost::json::object& record, std::string_view name) {
  const auto* value = member(record, name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->to_number<double>();
}

std::optional<int> whole_in(const boost::json::object& record, std::string_view name, int max) {
  const auto* value = member(record, name);
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  if (value->as_int64() < 0 || value->as_int64() > max) return std::nullopt;
  return static_cast<int>(value->as_int64());
}

std::string_view text_in(const boost::json::object& record, std::string_view name) {
  const auto* value = member(record, name);
  return value != nullptr && value->is_string() ? std::string_view(value->as_string())
                                                : std::string_view();
}

constexpr int kPartsMax = 1'000'000;

/// Return the name of a kept checkpoint, which is that of a folder; "" if it cannot be one.
std::string kept_name_in(const boost::json::object& record) {
  const std::string_view name = text_in(record, "checkpoint");
  const bool plain = !name.empty() && name.front() != '.' && name.find('/') == name.npos;
  return plain ? std::string(name) : "";
}

bool take_started(SearchController& search, const boost::json::object& record, int trial) {
  TrialStarted started{trial};
  if (search.spec().search == SearchKind::Command) {
    const auto* given = member(record, "parameters");
    if (given == nullptr || !given->is_object()) return false;
    auto values = proposed_values(search.spec(), given->as_object());
    if (!values) return false;
    started.values = std::move(*values);
  }
  search.handle(started);
  return true;
}

bool take_checkpointed(SearchController& search, const boost::json::object& record, int trial) {
  const auto at = number_in(record, "at");
  const auto part = whole_in(record, "part", kPartsMax);
  std::string name = kept_name_in(record);
  if (!at || !part || name.empty()) return false;
  const double value = number_in(record, "value").value_or(std::nan(""));
  search.handle(TrialCheckpointed{trial, *part, {*at, value, std::move(name)}});
  return true;
}

/// Take in the best value that the trial had, as a record tells it.
void take_best(SearchController& search, const boost::json::object& record, int trial) {
  const auto at = number_in(record, "best_at"), best = number_in(record, "best");
  const int part = whole_in(record, "best_part", kPartsMax).value_or(1);
  if (at && best) search.restore({trial, *at, *best, part});
}

bool take_exploited(SearchController& search, const boost::json::object& record, int trial) {
  const int known = static_cast<int>(search.trials().size());
  const auto at = number_in(record, "at");
  const auto part = whole_in(record, "part", kPartsMax), from = whole_in(record, "from", known - 1);
  const auto* values = member(record, "parameters");
  TrialExploited exploited{.trial = trial, .checkpoint = kept_name_in(record)};
  if (!at || !part || !from || exploited.checkpoint.empty()) return false;
  if (values == nullptr || !values->is_object() ||
      *part != search.trials()[static_cast<std::size_t>(trial)].part + 1)
    return false;
  exploited.part = *part;
  exploited.from = *from;
  exploited.time = *at;
  exploited.values = values->as_object();
  for (const Parameter& parameter : search.spec().parameters)
    if (!exploited.values.contains(parameter.path)) return false;
  take_best(search, record, trial);
  search.handle(exploited);
  return true;
}

}  // namespace

boost::json::object record_of(const TrialStarted& started, const boost::json::object& values) {
  return {{"event", "trial_started"}, {"trial", started.trial}, {"parameters", values}};
}

boost::json::object record_of(const MoreTrials& more) {
  return {{"event", "more_trials"}, {"trials", more.trials}};
}

boost::json::object record_of(const SearcherDone&) { return {{"event", "searcher_done"}}; }

boost::json::object record_of(const TrialPruned& pruned) {
  return {{"event", "trial_pruned"}, {"trial", pruned.trial}};
}

boost::json::object record_of(const TrialReported& report) {
  return {{"event", "trial_reported"},
          {"trial", report.trial},
          {"at", report.time},
          {"value", json_number(report.value)}};
}

boost::json::object record_of(const TrialCheckpointed& checkpointed) {
  return {{"event", "trial_checkpointed"},
          {"trial", checkpointed.trial},
          {"part", checkpointed.part},
          {"at", checkpointed.scored.time},
          {"value", json_number(checkpointed.scored.value)},
          {"checkpoint", checkpointed.scored.checkpoint}};
}

boost::json::object record_of(const TrialExploited& exploited, const TrialState& state) {
  return {{"event", "trial_exploited"},
          {"trial", exploited.trial},
          {"part", exploited.part},
          {"from", exploited.from},
          {"at", exploited.time},
          {"checkpoint", exploited.checkpoint},
          {"parameters", exploited.values},
          {"best", json_number(state.best)},
          {"best_at", json_number(state.best_time)},
          {"best_part", state.best_part}};
}

boost::json::object record_of(const TrialEnded& ended, const TrialState& state) {
  boost::json::object record{{"event", "trial_ended"},
                             {"trial", ended.trial},
                             {"end", kTrialEnds[static_cast<std::size_t>(ended.end)]},
                             {"code", ended.code},
                             {"cause", ended.cause},
                             {"at", json_number(state.time)},
                             {"value", json_number(state.value)},
                             {"best", json_number(state.best)},
                             {"best_at", json_number(state.best_time)}};
  if (state.part > 1) record["best_part"] = state.best_part;
  return record;
}

bool take_in(SearchController& search, const boost::json::object& record) {
  const std::string_view event = text_in(record, "event");
  if (event == "more_trials") {
    const auto trials = whole_in(record, "trials", kTrialsMax);
    if (!trials || !search.may_have_more()) return false;
    search.handle(MoreTrials{*trials});
    return true;
  }
  if (event == "searcher_done") {
    search.handle(SearcherDone{});
    return true;
  }
  constexpr std::array<std::string_view, 6> kEvents{"trial_started",   "trial_reported",
                                                    "trial_pruned",    "trial_checkpointed",
                                                    "trial_exploited", "trial_ended"};
  if (std::find(kEvents.begin(), kEvents.end(), event) == kEvents.end()) return true;
  const auto trial = whole_in(record, "trial", kTrialsMax - 1);
  const int known = static_cast<int>(search.trials().size());
  if (!trial) return false;
  if (event == "trial_started") {
    if (*trial != known || *trial >= search.trials_in_all()) return false;
    return take_started(search, record, *trial);
  }
  if (*trial >= known || search.trials()[static_cast<std::size_t>(*trial)].ended) return false;
  if (event == "trial_reported") {
    const auto at = number_in(record, "at");
    if (!at) return false;
    search.handle(TrialReported{*trial, *at, number_in(record, "value").value_or(std::nan(""))});
    return true;
  }
  if (event == "trial_pruned") {
    search.handle(TrialPruned{*trial});
    return true;
  }
  if (event == "trial_checkpointed") return take_checkpointed(search, record, *trial);
  if (event == "trial_exploited") return take_exploited(search, record, *trial);
  const auto end = std::find(kTrialEnds.begin(), kTrialEnds.end(), text_in(record, "end"));
  const auto code = whole_in(record, "code", 255);
  if (end == kTrialEnds.end() || !code) return false;
  // What its reports came to, of which the journal has only the decisive ones.
  take_best(search, record, *trial);
  const auto at = number_in(record, "at"), value = number_in(record, "value");
  if (at) search.restore({*trial, *at, value.value_or(std::nan(""))});
  search.handle(TrialEnded{*trial, static_cast<TrialEnd>(end - kTrialEnds.begin()), *code,
                           std::string(text_in(record, "cause"))});
  return true;
}

std::optional<TrialEnd> end_of(int code, bool told) {
  switch (code) {
    case 0:
      return told ? TrialEnd::Stopped : TrialEnd::Finished;
    case exit_code::kBadSpec:
      return TrialEnd::Invalid;
    case exit_code::kRequeue:
    case exit_code::kInterrupted:
      return told ? std::optional(TrialEnd::Stopped) : std::nullopt;
    case exit_code::kTaken:  // that train-run has not touched it
      return std::nullopt;
    default:
      return TrialEnd::Failed;
  }
}

std::optional<int> code_in(const boost::json::object& end) {
  const auto* of_rank = end.if_contains("exit_code");
  if (of_rank != nullptr && *of_rank == exit_code::kBadSpec) return exit_code::kBadSpec;
  return whole_in(end, "code", 255);
}

ResumeStep resume_step(const ChildFolder& folder, bool stops) {
  if (stops) return ResumeStep::End;
  if (!folder.begun) return ResumeStep::Start;
  if (!folder.code) return ResumeStep::Resume;
  return end_of(*folder.code, false) ? ResumeStep::End : ResumeStep::Resume;
}

}  // namespace train
