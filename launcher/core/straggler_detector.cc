#include "launcher/core/straggler_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "launcher/core/collective_tracker.h"

namespace train {
namespace {

constexpr Duration kJudgeStragglersEvery = seconds(1);
constexpr double kBehindMin = 0.05;  // of a step
constexpr double kDeviationsMin = 3;
constexpr std::size_t kExactRanksMax = 256;  // above, one rank hardly moves the median of all
constexpr double kOddsShownMin = 1e-6;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

struct Spread {
  double median = 0, deviation = 0;
};

/// Return the median of the values and their median deviation from it.
Spread spread_of(std::vector<double> values) {
  Spread spread;
  spread.median = median(values);
  for (double& value : values) value = std::abs(value - spread.median);
  spread.deviation = median(values);
  return spread;
}

/// A value of each rank.
class OfRanks {
 public:
  explicit OfRanks(std::vector<double> values)
      : values_(std::move(values)), all_(spread_of(values_)) {}
  double operator[](std::size_t i) const { return values_[i]; }
  /// Return the spread of the values of all ranks but this one.
  Spread of_others(std::size_t i) const {
    if (values_.size() > kExactRanksMax) return all_;
    std::vector<double> rest = values_;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    return spread_of(std::move(rest));
  }
  double median() const { return all_.median; }
  const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  Spread all_;
};

std::size_t slow_in(std::size_t newest, const auto& windows) {
  const std::size_t first = windows.size() - std::min(newest, windows.size());
  return static_cast<std::size_t>(
      std::count_if(windows.begin() + static_cast<std::ptrdiff_t>(first), windows.end(),
                    [](const auto& window) { return window.slow; }));
}

}  // namespace

double binomial_tail(std::size_t n, std::size_t k, double p) {
  if (k == 0 || p >= 1) return 1;
  if (p <= 0) return 0;
  double tail = 0;
  const auto count = static_cast<double>(n);
  for (std::size_t i = k; i <= n; ++i) {
    const auto hits = static_cast<double>(i);
    tail +=
        std::exp(std::lgamma(count + 1) - std::lgamma(hits + 1) - std::lgamma(count - hits + 1) +
                 hits * std::log(p) + (count - hits) * std::log1p(-p));
  }
  return std::min(tail, 1.0);
}

std::string odds_text(double odds) {
  if (odds <= kOddsShownMin) return "less than 1 in 1,000,000";
  const double one_in = std::max(1.0, 1 / odds);
  const double unit = std::pow(10.0, std::floor(std::log10(one_in)));
  std::string digits = fmt::format("{:.0f}", std::floor(one_in / unit) * unit);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return "1 in " + digits;
}

StragglerDetector::Counters StragglerDetector::counters_of(const WorkerProgress& progress,
                                                           TimePoint now) {
  Counters counters{.steps = progress.steps, .at = now};
  for (std::size_t i = 0; i < progress.intervals.size(); ++i) {
    const std::int64_t total = progress.intervals[i].total_us;
    counters.all_us += total;
    if (static_cast<Phase>(i) == Phase::Step) counters.step_us = total;
    if (static_cast<Phase>(i) == Phase::Data) counters.data_us = total;
  }
  return counters;
}

void StragglerDetector::sampled(const RankSample& sample, TimePoint now) {
  if (sample.progress.phase == Phase::None) return;
  newest_[sample.rank] = counters_of(sample.progress, now);
}

bool StragglerDetector::compares(const RankTable& ranks, Rank rank, const Counters& counters) {
  const RankTable::Entry* entry = ranks.find(rank);
  return entry != nullptr && entry->alive() && !entry->paused && counters.steps > 0;
}

void StragglerDetector::begin_window(const RankTable& ranks, TimePoint now) {
  base_.clear();
  began_ = now;
  for (const auto& [rank, counters] : newest_)
    if (compares(ranks, rank, counters)) base_[rank] = counters;
  if (base_.size() < 2) base_.clear();
}

/// Return the own times of all ranks if each has made enough steps in the window. An empty list:
/// the window must begin anew, because the ranks are not those that it began with.
std::optional<std::vector<StragglerDetector::OwnTime>> StragglerDetector::own_times(
    const RankTable& ranks, TimePoint now) const {
  std::vector<OwnTime> times;
  const std::uint64_t steps_min = now - began_ >= kLongWindow ? kLongWindowSteps : kWindowSteps;
  bool enough = true;
  for (const auto& [rank, base] : base_) {
    const Counters& newest = newest_.at(rank);
    if (!compares(ranks, rank, newest) || newest.steps < base.steps ||
        newest.all_us < base.all_us || newest.step_us < base.step_us ||
        newest.data_us < base.data_us)
      return std::vector<OwnTime>{};
    enough = enough && newest.steps - base.steps >= steps_min && newest.at > base.at;
    const auto steps = static_cast<double>(std::max<std::uint64_t>(newest.steps - base.steps, 1));
    times.push_back({rank, static_cast<double>(newest.step_us - base.step_us) / steps,
                     static_cast<double>(newest.data_us - base.data_us) / steps,
                     static_cast<double>(newest.all_us - base.all_us) / steps});
  }
  return enough ? std::optional(std::move(times)) : std::nullopt;
}

/// Add a window to the ranks' histories.
void StragglerDetector::remember(const std::vector<OwnTime>& times) {
  ++windows_;
  const auto each = [&times](const auto& value_of) {
    std::vector<double> values;
    for (const OwnTime& time : times) values.push_back(value_of(time));
    return OfRanks(std::move(values));
  };
  const OfRanks own = each([](const OwnTime& time) { return time.own(); });
  const OfRanks data = each([](const OwnTime& time) { return time.data; });
  const OfRanks whole = each([](const OwnTime& time) { return time.whole; });
  std::vector<double> sorted = own.values();
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t i = 0; i < times.size(); ++i) {
    InWindow window;
    const auto as_slow = sorted.end() - std::lower_bound(sorted.begin(), sorted.end(), own[i]);
    window.slower = static_cast<std::uint32_t>(as_slow - 1);
    if (own[i] > own.median()) {
      const Spread others = own.of_others(i);
      const double lag = own[i] - others.median;
      window.slow = lag > std::max(kBehindMin * whole.median(), kDeviationsMin * others.deviation);
      window.behind = static_cast<float>(others.median > 0 ? lag / others.median : 0);
      window.data = window.slow && data[i] - data.of_others(i).median > lag / 2;
    }
    History& history = histories_[times[i].rank];
    if (!history.since && !window.slow) continue;
    if (!history.since) history.since = began_;
    if (history.windows.size() == kWindowsRemembered)
      history.windows.erase(history.windows.begin());
    history.windows.push_back(window);
  }
}

double StragglerDetector::odds_of(const History& history, std::size_t suspected) const {
  const std::size_t size = base_.size();
  const auto hits = std::count_if(history.windows.begin(), history.windows.end(),
                                  [&](const InWindow& one) { return one.slower < suspected; });
  const double chance = static_cast<double>(suspected) / static_cast<double>(size);
  return std::min(
      1.0, static_cast<double>(size) * static_cast<double>(windows_) *
               binomial_tail(history.windows.size(), static_cast<std::size_t>(hits), chance));
}

std::vector<StragglerDetector::Finding> StragglerDetector::judge(const RankTable& ranks,
                                                                 const NodePool& nodes,
                                                                 TimePoint now) {
  if (judged_at_ && now - *judged_at_ < kJudgeStragglersEvery) return {};
  judged_at_ = now;
  if (base_.empty()) {
    begin_window(ranks, now);
    return {};
  }
  auto times = own_times(ranks, now);
  if (!times) return {};
  std::vector<Finding> found;
  if (!times->empty()) {
    remember(*times);
    found = findings(ranks, nodes, now);
  }
  begin_window(ranks, now);
  return found;
}

/// Return how many ranks are suspected at the same time.
std::size_t StragglerDetector::suspected() const {
  const auto count = std::count_if(histories_.begin(), histories_.end(), [](const auto& entry) {
    return entry.second.named || slow_in(kWindowsJudged, entry.second.windows) >= kSlowWindowsMin;
  });
  return std::max<std::size_t>(1, static_cast<std::size_t>(count));
}

/// Add a rank to what is found of its node.
void StragglerDetector::add(Finding& finding, Rank rank, const History& history, double odds,
                            TimePoint now) {
  finding.ranks.push_back(rank);
  finding.odds = finding.ranks.size() == 1 ? odds : std::max(finding.odds, odds);
  finding.lasted = std::max(finding.lasted, now - *history.since);
  const std::size_t judged = std::min(kWindowsJudged, history.windows.size());
  double behind = 0;
  std::size_t in_data = 0;
  for (std::size_t i = history.windows.size() - judged; i < history.windows.size(); ++i) {
    behind += history.windows[i].behind / static_cast<double>(judged);
    in_data += history.windows[i].data ? 1 : 0;
  }
  finding.behind = std::max(finding.behind, behind);
  if (in_data * 2 > judged) finding.phase = Phase::Data;
}

std::vector<StragglerDetector::Finding> StragglerDetector::findings(const RankTable& ranks,
                                                                    const NodePool& nodes,
                                                                    TimePoint now) {
  const std::size_t suspects = suspected();
  std::map<std::pair<NodeId, bool>, Finding> by_node;
  for (auto& [rank, history] : histories_) {
    const RankTable::Entry* entry = ranks.find(rank);
    if (entry == nullptr || !entry->alive() || !history.since) continue;
    const std::size_t slow = slow_in(kWindowsJudged, history.windows);
    const bool clear = slow <= kClearWindowsMax && history.windows.size() >= kWindowsJudged;
    const double odds = odds_of(history, suspects);
    const bool names = !history.named && slow >= kSlowWindowsMin && odds <= kOddsMax;
    if (names || (clear && history.named))
      add(by_node[{entry->node, names}], rank, history, odds, now);
    if (names) history.named = true;
    if (clear) history = {};
  }
  std::vector<Finding> all;
  for (auto& [key, of_node] : by_node) {
    Finding& finding = of_node;  // clang 14 lets no lambda capture a structured binding
    std::tie(finding.node, finding.slow) = key;
    const auto on_node = std::count_if(base_.begin(), base_.end(), [&](const auto& entry) {
      return ranks.find(entry.first)->node == finding.node;
    });
    finding.whole_node =
        finding.ranks.size() > 1 && finding.ranks.size() == static_cast<std::size_t>(on_node);
    finding.text = text_of(finding, nodes.name(finding.node));
    all.push_back(std::move(finding));
  }
  return all;
}

std::string StragglerDetector::text_of(const Finding& finding, const std::string& node) {
  const char* verb = finding.ranks.size() == 1 ? "is" : "are";
  const std::string who = fmt::format("{} on {}{}", list_ranks(finding.ranks), node,
                                      finding.whole_node ? ", the whole node," : "");
  const std::string lasted = format_duration(finding.lasted);
  if (!finding.slow) return fmt::format("{} {} no longer slow, after {}", who, verb, lasted);
  return fmt::format(
      "{} {} slow: {:.0f} % behind the median in {} for {} (odds that this is chance: {})", who,
      verb, finding.behind * 100, to_string(finding.phase), lasted, odds_text(finding.odds));
}

}  // namespace train
