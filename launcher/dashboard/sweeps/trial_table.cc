#include "launcher/dashboard/sweeps/trial_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/search/search_controller.h"
#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_json.h"

namespace train {
namespace {

std::string json_text(const boost::json::object& object) {
  JsonWriter json;
  put_json(json, object);
  return std::move(json).take();
}

}  // namespace

std::string TrialTable::kept(std::string text, std::size_t bytes_max) {
  if (text.size() > bytes_max || text_bytes_ + text.size() > kTextBytesMax) return {};
  text_bytes_ += text.size();
  return text;
}

void TrialTable::add(const JournalRecord& record) {
  last_seq = record.seq;
  last_time = record.time;
  if (began.empty()) began = record.time;
  const std::string event = text_member(record.event, "event");
  if (event == kGenerationTaken) {
    host = text_member(record.event, "host");
    pid = whole_member(record.event, "pid").value_or(0);
    code.reset();  // another train-run has taken it up
    ended.clear();
  } else if (event == "trial_started") {
    begin_trial(record);
  } else if (event == "trial_exploited") {
    exploit_trial(record);
  } else if (event == "trial_ended") {
    end_trial(record);
  } else if (event == "more_trials") {
    const auto trials = whole_member(record.event, "trials").value_or(0);
    more += static_cast<int>(std::clamp<std::int64_t>(trials, 0, kTrialsMax - more));
    searcher_done = false;
  } else if (event == "searcher_done") {
    searcher_done = true;
  } else if (event == "sweep_ended") {
    ended = record.time;
    code = whole_member(record.event, "code");
    cause = kept(text_member(record.event, "cause"), kCauseBytesMax);
  }
}

void TrialTable::begin_trial(const JournalRecord& record) {
  const auto number = whole_member(record.event, "trial");
  if (!number || std::cmp_not_equal(*number, trials.size()) ||
      std::cmp_greater_equal(*number, kTrialsMax)) {
    odd = fmt::format("record {} of sweep.jsonl begins a trial out of order", record.seq);
    return;
  }
  TrialView trial{.began = record.time, .changed = ++version};
  if (const auto* parameters = object_member(record.event, "parameters"))
    trial.parameters = kept(json_text(*parameters), kParametersBytesMax);
  trials.push_back(std::move(trial));
}

void TrialTable::exploit_trial(const JournalRecord& record) {
  const auto number = whole_member(record.event, "trial"),
             part = whole_member(record.event, "part");
  const auto from = whole_member(record.event, "from");
  const auto at = number_member(record.event, "at");
  const auto known = [&](const auto& one) {
    return one && *one >= 0 && std::cmp_less(*one, trials.size());
  };
  if (!known(number) || !known(from) || !part || !at) {
    odd = fmt::format("record {} of sweep.jsonl lets a trial go on that cannot", record.seq);
    return;
  }
  TrialView& trial = trials[static_cast<std::size_t>(*number)];
  if (*part != trial.parts.back().number + 1 || trial.parts.size() == kPartsMax) {
    odd = fmt::format("record {} of sweep.jsonl begins a part out of order", record.seq);
    return;
  }
  trial.parts.push_back({static_cast<int>(*part), static_cast<int>(*from), *at});
  if (const auto* parameters = object_member(record.event, "parameters"))
    trial.parameters = kept(json_text(*parameters), kParametersBytesMax);
  trial.changed = ++version;
}

void TrialTable::end_trial(const JournalRecord& record) {
  const auto number = whole_member(record.event, "trial");
  const std::string end = text_member(record.event, "end");
  const bool known = number && *number >= 0 && std::cmp_less(*number, trials.size());
  if (!known || std::find(kTrialEnds.begin(), kTrialEnds.end(), end) == kTrialEnds.end()) {
    odd = fmt::format("record {} of sweep.jsonl ends a trial that it cannot end", record.seq);
    return;
  }
  TrialView& trial = trials[static_cast<std::size_t>(*number)];
  trial.ended = record.time;
  trial.end = end;
  trial.code = whole_member(record.event, "code");
  trial.cause = kept(text_member(record.event, "cause"), kCauseBytesMax);
  trial.time = number_member(record.event, "at");
  trial.value = number_member(record.event, "value");
  trial.best = number_member(record.event, "best");
  trial.best_time = number_member(record.event, "best_at");
  trial.changed = ++version;
}

}  // namespace train
