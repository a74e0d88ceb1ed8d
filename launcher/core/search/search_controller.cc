#include "launcher/core/search/search_controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launcher/core/search/trial_values.h"
#include "lib/base/check.h"
#include "lib/base/exit_code.h"

namespace train {
namespace {

/// Return a cause without what differs from trial to trial: digits, and words with a digit.
std::string kind_of_cause(const std::string& cause) {
  std::string kind, word;
  bool has_digit = false;
  for (const char c : cause + ' ') {
    if (c != ' ' && c != '\n') {
      word += c;
      has_digit = has_digit || (c >= '0' && c <= '9');
      continue;
    }
    if (!has_digit) kind += word + ' ';
    word.clear();
    has_digit = false;
  }
  return kind;
}

bool is_failure(const TrialEnded& ended) {
  return ended.end == TrialEnd::Failed || ended.end == TrialEnd::Invalid;
}

}  // namespace

bool fail_alike(const TrialEnded& a, const TrialEnded& b) {
  return is_failure(a) && is_failure(b) && a.code == b.code &&
         kind_of_cause(a.cause) == kind_of_cause(b.cause);
}

int trials_in_all(const SearchSpec& spec, int invalid, int more) {
  const auto planned =
      static_cast<int>(std::min<std::int64_t>(trial_count(spec) + more, kTrialsMax));
  // Of a grid, an invalid point stays one. No more trials are replaced than were asked for.
  const bool drawn = spec.search == SearchKind::Random || spec.search == SearchKind::Command;
  const int replaced = drawn ? std::min(invalid, planned) : 0;
  return std::min(planned + replaced, kTrialsMax);
}

SearchController::SearchController(SearchSpec spec) : spec_(std::move(spec)) {
  const std::int64_t trials = trial_count(spec_);
  if (const auto* asha = std::get_if<AshaSpec>(&spec_.scheduler))
    asha_.emplace(*asha, spec_.mode, trials);
  if (const auto* median = std::get_if<MedianSpec>(&spec_.scheduler))
    median_.emplace(*median, spec_.mode);
  if (std::holds_alternative<PbtSpec>(spec_.scheduler)) pbt_.emplace(spec_);
}

bool SearchController::is_better(double a, double b) const {
  return spec_.mode == SearchMode::Min ? a < b : a > b;
}

int SearchController::trials_in_all() const {
  if (searcher_done_) return static_cast<int>(trials_.size()) + (proposed_ ? 1 : 0);
  return train::trials_in_all(spec_, invalid_);
}

std::vector<int> SearchController::running() const {
  std::vector<int> running;
  for (std::size_t i = 0; i < trials_.size(); ++i)
    if (!trials_[i].ended) running.push_back(static_cast<int>(i));
  return running;
}

std::optional<int> SearchController::best() const {
  std::optional<int> best;
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const TrialState& trial = trials_[i];
    if (!trial.best || (trial.ended && is_failure(*trial.ended))) continue;
    if (!best || is_better(*trial.best, *trials_[static_cast<std::size_t>(*best)].best))
      best = static_cast<int>(i);
  }
  return best;
}

std::vector<int> SearchController::best_first() const {
  std::vector<int> trials;
  for (int i = 0; std::cmp_less(i, trials_.size()); ++i)
    if (trials_[static_cast<std::size_t>(i)].best) trials.push_back(i);
  const auto best = [&](int trial) { return *trials_[static_cast<std::size_t>(trial)].best; };
  std::stable_sort(trials.begin(), trials.end(),
                   [&](int a, int b) { return is_better(best(a), best(b)); });
  return trials;
}

/// Let the trial have its place among those whose checkpoints are kept, if it is one of them.
void SearchController::keep_best(int ended) {
  if (!spec_.keep_trials) return;
  const auto state = [&](int trial) -> const TrialState& {
    return trials_[static_cast<std::size_t>(trial)];
  };
  if (!state(ended).best || is_failure(*state(ended).ended)) {
    to_clear_.push_back(ended);
    return;
  }
  const auto place = std::upper_bound(kept_.begin(), kept_.end(), ended, [&](int a, int b) {
    const double of_a = *state(a).best, of_b = *state(b).best;
    return is_better(of_a, of_b) || (of_a == of_b && a < b);  // of equal ones, as best() does
  });
  kept_.insert(place, ended);
  if (std::cmp_less_equal(kept_.size(), *spec_.keep_trials)) return;
  to_clear_.push_back(kept_.back());
  kept_.pop_back();
}

bool SearchController::takes_time(const TrialReported& report) const {
  if (!may_stop(report.trial)) return false;
  const auto index = static_cast<std::size_t>(report.trial);
  return std::isfinite(report.time) && (!decided_[index] || report.time > *decided_[index]);
}

bool SearchController::is_decisive(const TrialReported& report) const {
  if (!takes_time(report)) return false;
  if (median_) return true;
  if (!asha_) return false;
  const auto rung = asha_->next_rung(report.trial);
  return rung && report.time >= static_cast<double>(*rung);
}

void SearchController::handle(const TrialProposed& proposed) {
  if (std::cmp_equal(proposed.trial, trials_.size())) proposed_ = proposed;
}

bool SearchController::may_have_more() const {
  return spec_.search == SearchKind::Random || spec_.search == SearchKind::Command;
}

void SearchController::handle(const MoreTrials& more) {
  spec_.num_trials = static_cast<int>(
      std::min<std::int64_t>(std::int64_t{spec_.num_trials} + more.trials, kTrialsMax));
  searcher_done_ = ended_ = false;
}

bool SearchController::may_stop(int trial) const {
  const auto index = static_cast<std::size_t>(trial);
  return index < trials_.size() && !trials_[index].ended && !trials_[index].stops;
}

void SearchController::handle(const TrialPruned& pruned) {
  if (!may_stop(pruned.trial)) return;
  TrialState& trial = trials_[static_cast<std::size_t>(pruned.trial)];
  trial.stops = trial.pruned = true;
}

void SearchController::handle(const TrialStarted& started) {
  // A later driver may take the record in again, of a trial that it has started itself.
  if (static_cast<std::size_t>(started.trial) < trials_.size()) return;
  TRAIN_CHECK(static_cast<std::size_t>(started.trial) == trials_.size(),
              "trials are started in the order of their numbers");
  const bool has_searcher = spec_.search == SearchKind::Command;
  trials_.push_back({.values = has_searcher ? started.values : trial_values(spec_, started.trial)});
  proposed_.reset();
  decided_.emplace_back();
  asked_.push_back(false);
  ++running_;
}

void SearchController::restore(const TrialReported& report) {
  const auto index = static_cast<std::size_t>(report.trial);
  if (index >= trials_.size() || trials_[index].ended) return;
  TrialState& trial = trials_[index];
  trial.time = report.time;
  trial.value = report.value;
  if (std::isfinite(report.value) && (!trial.best || is_better(report.value, *trial.best))) {
    trial.best = report.value;
    trial.best_time = report.time;
    trial.best_part = report.part > 0 ? report.part : trial.part;
  }
}

void SearchController::handle(const TrialReported& report) {
  restore(report);
  if (!is_decisive(report)) return;
  const auto index = static_cast<std::size_t>(report.trial);
  TrialState& trial = trials_[index];
  decided_[index] = report.time;
  if (asha_) trial.stops = asha_->reported(report.trial, report.time, report.value);
  if (median_) trial.stops = median_->reported(report.trial, report.time, report.value);
}

bool SearchController::wants_checkpoint(int trial, double time) const {
  const auto index = static_cast<std::size_t>(trial);
  if (!pbt_ || index >= trials_.size() || trials_[index].ended || exploits_.contains(trial))
    return false;
  return std::isfinite(time) && pbt_->is_due(trial, time);
}

void SearchController::handle(const TrialCheckpointed& checkpointed) {
  const int trial = checkpointed.trial;
  if (!wants_checkpoint(trial, checkpointed.scored.time)) return;
  const TrialState& state = trials_[static_cast<std::size_t>(trial)];
  if (checkpointed.part != state.part) return;
  const auto donor = pbt_->checkpointed(trial, state.part, checkpointed.scored);
  if (!donor) return;
  const PbtCheckpoint& taken = *pbt_->newest(*donor);
  const auto& values = trials_[static_cast<std::size_t>(*donor)].values;
  exploits_[trial] = {.trial = trial,
                      .part = state.part + 1,
                      .from = *donor,
                      .time = taken.time,
                      .checkpoint = taken.checkpoint,
                      .values = pbt_->explored(values, trial, state.part + 1)};
}

void SearchController::handle(const TrialExploited& exploited) {
  const auto index = static_cast<std::size_t>(exploited.trial);
  if (!pbt_ || index >= trials_.size() || trials_[index].ended) return;
  TrialState& trial = trials_[index];
  if (exploited.part != trial.part + 1) return;
  exploits_.erase(exploited.trial);
  pbt_->exploited(exploited.trial, exploited.time);
  trial.part = exploited.part;
  trial.values = exploited.values;
  trial.from = exploited;
}

std::set<std::string> SearchController::needed_checkpoints() const {
  std::set<std::string> needed;
  if (!pbt_) return needed;
  for (const auto& [trial, exploit] : exploits_) needed.insert(exploit.checkpoint);
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    if (trials_[i].ended) continue;
    if (const auto& newest = pbt_->newest(static_cast<int>(i))) needed.insert(newest->checkpoint);
    if (trials_[i].from) needed.insert(trials_[i].from->checkpoint);
  }
  return needed;
}

void SearchController::handle(const TrialEnded& ended) {
  const auto index = static_cast<std::size_t>(ended.trial);
  if (index >= trials_.size() || trials_[index].ended) return;
  trials_[index].ended = ended;
  exploits_.erase(ended.trial);
  if (pbt_) pbt_->ended(ended.trial);
  --running_;
  keep_best(ended.trial);
  if (first_ends_.size() < kAlikeFailures) first_ends_.push_back(ended);
  if (ended.end == TrialEnd::Invalid) ++invalid_;
  if (ended.end == TrialEnd::Failed && asha_) asha_->failed(ended.trial);
}

/// Return how the sweep ends, if it does: given up, or with nothing left to try.
std::optional<EndSearch> SearchController::end() const {
  const bool alike = first_ends_.size() == kAlikeFailures &&
                     std::all_of(first_ends_.begin() + 1, first_ends_.end(), [&](const auto& end) {
                       return fail_alike(first_ends_.front(), end);
                     });
  if (alike)
    return EndSearch{first_ends_.front().code,
                     fmt::format("the first {} trials failed alike: {}", kAlikeFailures,
                                 first_ends_.front().cause)};
  if (running_ > 0 || std::cmp_less(trials_.size(), trials_in_all())) return std::nullopt;
  const bool some = std::any_of(trials_.begin(), trials_.end(),
                                [](const TrialState& trial) { return !is_failure(*trial.ended); });
  if (some) return EndSearch{};
  if (trials_.empty()) return EndSearch{exit_code::kFailed, "the searcher proposed no trial"};
  const TrialEnded& first = first_ends_.front();
  return EndSearch{first.code, fmt::format("all trials failed; the first: {}", first.cause)};
}

std::vector<SearchAction> SearchController::next_actions() {
  std::vector<SearchAction> actions;
  if (ended_) return actions;
  const auto stop = [&](std::size_t index, std::string why) {
    if (trials_[index].ended || asked_[index]) return;
    asked_[index] = true;
    actions.push_back(StopTrial{static_cast<int>(index), std::move(why)});
  };
  if (auto end = this->end()) {
    for (std::size_t i = 0; i < trials_.size(); ++i) stop(i, "the sweep is given up");
    if (running_ > 0) return actions;
    ended_ = true;
    actions.push_back(std::move(*end));
    return actions;
  }
  for (std::size_t i = 0; i < trials_.size(); ++i)
    if (trials_[i].stops)
      stop(i, trials_[i].pruned ? "the searcher stops it" : "others were better at that time");
  for (const auto& [trial, exploit] : exploits_)
    if (!asked_[static_cast<std::size_t>(trial)]) actions.push_back(ExploitTrial{exploit});
  start_trials(actions);
  return actions;
}

void SearchController::start_trials(std::vector<SearchAction>& actions) {
  const int room = std::min(fit_, spec_.max_concurrent_trials.value_or(fit_)) - running_;
  const int next = static_cast<int>(trials_.size()), left = trials_in_all() - next;
  if (spec_.search != SearchKind::Command) {
    for (int i = 0; i < std::min(room, left); ++i) actions.push_back(StartTrial{next + i});
    return;
  }
  // One after another, so that the searcher proposes each with all that is known.
  if (room <= 0 || left <= 0) return;
  if (proposed_) {
    actions.push_back(StartTrial{next, proposed_->values});
  } else if (asked_for_ <= next) {
    asked_for_ = next + 1;
    actions.push_back(AskSearcher{next});
  }
}

}  // namespace train
