#include "launcher/core/search/asha.h"

#include <algorithm>
#include <cmath>

namespace train {
namespace {

/// Return floor(log_d(n)), for n ≥ 1. Floating logarithms err: log(1000)/log(10) is less than 3.
int whole_log(std::int64_t n, int d) {
  int log = 0;
  for (; n >= d; n /= d) ++log;
  return log;
}

std::int64_t power(int d, int exponent) {  // of a whole_log(), so it fits
  std::int64_t n = 1;
  while (exponent-- > 0) n *= d;
  return n;
}

std::vector<std::int64_t> rung_times(const AshaSpec& spec, int rungs) {
  std::vector<std::int64_t> times;
  for (int i = 0; i < rungs; ++i)
    times.push_back(std::max<std::int64_t>(spec.max_time / power(spec.divisor, rungs - 1 - i), 1));
  return times;
}

}  // namespace

std::vector<AshaBracket> asha_brackets(const AshaSpec& spec, std::int64_t trials) {
  const int deepest = std::min({spec.max_rungs, whole_log(spec.max_time, spec.divisor) + 1,
                                whole_log(trials, spec.divisor) + 1});
  const int least = spec.mode == AshaMode::Aggressive ? deepest
                    : spec.mode == AshaMode::Standard ? (deepest - 1) / 2 + 1
                                                      : 1;
  const auto weight = [&](int rungs) {
    return static_cast<double>(power(spec.divisor, rungs - 1)) / rungs;
  };
  double all = 0;
  for (int rungs = deepest; rungs >= least; --rungs) all += weight(rungs);
  std::vector<AshaBracket> brackets;
  std::int64_t left = trials;
  for (int rungs = deepest; rungs >= least && left > 0; --rungs) {
    const auto share = static_cast<std::int64_t>(weight(rungs) / all * static_cast<double>(trials));
    const std::int64_t its = std::min(std::max<std::int64_t>(share, 1), left);
    brackets.push_back({rung_times(spec, rungs), static_cast<int>(its)});
    left -= its;
  }
  brackets.front().trials += static_cast<int>(left);
  return brackets;
}

std::vector<TrialsToTime> asha_preview(const AshaSpec& spec, std::int64_t trials) {
  std::vector<TrialsToTime> preview;
  for (const AshaBracket& bracket : asha_brackets(spec, trials)) {
    std::int64_t come = bracket.trials;
    for (std::size_t i = 0; i < bracket.rungs.size(); ++i) {
      const bool last = i + 1 == bracket.rungs.size();
      const std::int64_t go_on = last ? 0 : std::max<std::int64_t>(come / spec.divisor, 1);
      const auto at = std::find_if(preview.begin(), preview.end(), [&](const TrialsToTime& row) {
        return row.time >= bracket.rungs[i];
      });
      if (at != preview.end() && at->time == bracket.rungs[i])
        at->trials += come - go_on;
      else
        preview.insert(at, {come - go_on, bracket.rungs[i]});
      come = go_on;
    }
  }
  return preview;
}

Asha::Asha(const AshaSpec& spec, SearchMode mode, std::int64_t trials)
    : divisor_(static_cast<std::size_t>(spec.divisor)), mode_(mode) {
  int end = 0;
  for (const AshaBracket& bracket : asha_brackets(spec, trials)) {
    Bracket& added = brackets_.emplace_back();
    for (const std::int64_t time : bracket.rungs) added.rungs.push_back({.time = time});
    added.end = end += bracket.trials;
  }
}

const Asha::Bracket& Asha::bracket_of(int trial) const {
  // Trials in place of invalid ones have higher numbers: they are tried as most are.
  const auto of = std::find_if(brackets_.begin(), brackets_.end(),
                               [&](const Bracket& bracket) { return trial < bracket.end; });
  return of == brackets_.end() ? brackets_.front() : *of;
}

Asha::Bracket& Asha::bracket_of(int trial) {
  return const_cast<Bracket&>(std::as_const(*this).bracket_of(trial));
}

std::size_t& Asha::passed(int trial) {
  const auto index = static_cast<std::size_t>(trial);
  if (passed_.size() <= index) passed_.resize(index + 1);
  return passed_[index];
}

std::optional<std::int64_t> Asha::next_rung(int trial) const {
  const auto index = static_cast<std::size_t>(trial);
  const std::size_t passed = index < passed_.size() ? passed_[index] : 0;
  const Bracket& bracket = bracket_of(trial);
  if (passed >= bracket.rungs.size()) return std::nullopt;
  return bracket.rungs[passed].time;
}

std::size_t Asha::insert(Rung& rung, double value) const {
  const auto better = [this](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return mode_ == SearchMode::Min ? a < b : a > b;
  };
  const auto at = std::upper_bound(rung.values.begin(), rung.values.end(), value, better);
  const auto place = static_cast<std::size_t>(at - rung.values.begin());
  rung.values.insert(at, value);
  return place;
}

bool Asha::reported(int trial, double time, double value) {
  std::vector<Rung>& rungs = bracket_of(trial).rungs;
  std::size_t& next = passed(trial);
  while (next < rungs.size() && time >= static_cast<double>(rungs[next].time)) {
    Rung& rung = rungs[next++];
    const std::size_t place = insert(rung, value);
    if (next == rungs.size()) return true;
    if (place >= std::max<std::size_t>(rung.values.size() / divisor_, 1)) return true;
  }
  return false;
}

void Asha::failed(int trial) {
  std::vector<Rung>& rungs = bracket_of(trial).rungs;
  std::size_t& next = passed(trial);
  if (next < rungs.size()) insert(rungs[next++], std::nan(""));
}

}  // namespace train
