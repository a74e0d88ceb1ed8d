#include "launcher/core/search/pbt.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "launcher/core/search/trial_values.h"

namespace train {
namespace {

constexpr double kUp = 1.2, kDown = 0.8;

/// Return what a random choice of a trial's part depends on.
std::string seed_of(std::string_view what, int part) { return fmt::format("{}#{}", what, part); }

double as_number(const boost::json::value& value) {
  return value.is_number() ? value.to_number<double>() : std::nan("");
}

}  // namespace

Pbt::Pbt(const SearchSpec& spec) : spec_(spec), pbt_(std::get<PbtSpec>(spec.scheduler)) {}

Pbt::Member& Pbt::member(int trial) {
  const auto index = static_cast<std::size_t>(trial);
  if (members_.size() <= index) members_.resize(index + 1);
  return members_[index];
}

bool Pbt::is_due(int trial, double time) const {
  const auto index = static_cast<std::size_t>(trial);
  const double decided = index < members_.size() ? members_[index].decided : 0;
  return time >= static_cast<double>(pbt_.burn_in) &&
         time - decided >= static_cast<double>(pbt_.interval);
}

std::optional<int> Pbt::checkpointed(int trial, int part, PbtCheckpoint scored) {
  Member& mine = member(trial);
  mine.decided = scored.time;
  mine.newest = std::move(scored);

  std::vector<int> worst_first;
  for (std::size_t i = 0; i < members_.size(); ++i)
    if (members_[i].newest) worst_first.push_back(static_cast<int>(i));
  const auto value = [&](int one) { return members_[static_cast<std::size_t>(one)].newest->value; };
  std::stable_sort(worst_first.begin(), worst_first.end(), [&](int a, int b) {
    if (std::isnan(value(a)) || std::isnan(value(b)))
      return std::isnan(value(a)) && !std::isnan(value(b));
    return spec_.mode == SearchMode::Min ? value(a) > value(b) : value(a) < value(b);
  });
  const std::size_t all = worst_first.size();
  const auto share = static_cast<std::size_t>(std::ceil(static_cast<double>(all) * pbt_.quantile));
  const std::size_t some = std::min(share, all / 2);
  const auto lower_end = worst_first.begin() + static_cast<std::ptrdiff_t>(some);
  if (std::find(worst_first.begin(), lower_end, trial) == lower_end) return std::nullopt;
  const std::uint64_t place =
      number_below(random_bits(spec_.seed, trial, seed_of("donor", part)), some);
  const int donor = worst_first[all - some + place];
  return std::isnan(value(donor)) ? std::nullopt : std::optional(donor);
}

void Pbt::exploited(int trial, double time) {
  Member& mine = member(trial);
  mine.decided = time;
  mine.newest.reset();  // it is another one now
}

void Pbt::ended(int trial) { member(trial).newest.reset(); }

const std::optional<PbtCheckpoint>& Pbt::newest(int trial) const {
  static const std::optional<PbtCheckpoint> kNone;
  const auto index = static_cast<std::size_t>(trial);
  return index < members_.size() ? members_[index].newest : kNone;
}

boost::json::object Pbt::explored(const boost::json::object& values, int trial, int part) const {
  boost::json::object changed = values;
  for (const Parameter& parameter : spec_.parameters) {
    const bool named =
        std::find(pbt_.mutate.begin(), pbt_.mutate.end(), parameter.path) != pbt_.mutate.end();
    if (parameter.kind == ParameterKind::Const || (!pbt_.mutate.empty() && !named)) continue;
    changed[parameter.path] = explored(parameter, values.at(parameter.path), trial, part);
  }
  return changed;
}

boost::json::value Pbt::explored(const Parameter& parameter, const boost::json::value& value,
                                 int trial, int part) const {
  const auto bits = [&](std::string_view what) {
    return random_bits(spec_.seed, trial, parameter.path + seed_of(what, part));
  };
  const auto anew = [&] { return drawn_value(parameter, bits("/anew")); };
  if (random_fraction(bits("/resample")) < pbt_.resample) return anew();
  const bool up = number_below(bits("/way"), 2) == 1;
  if (parameter.kind == ParameterKind::Choice) {
    const auto at = std::find(parameter.values.begin(), parameter.values.end(), value);
    if (at == parameter.values.end()) return anew();
    const auto last = static_cast<std::ptrdiff_t>(parameter.values.size()) - 1;
    const auto place = at - parameter.values.begin() + (up ? 1 : -1);
    return parameter.values[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(place, 0, last))];
  }
  const double number = as_number(value) * (up ? kUp : kDown);
  if (!std::isfinite(number)) return anew();
  if (parameter.kind != ParameterKind::Int)
    return std::clamp(number, parameter.low, parameter.high);
  // Compared as doubles, which need not hold the ends of the range exactly.
  if (number >= static_cast<double>(parameter.greatest)) return parameter.greatest;
  if (number <= static_cast<double>(parameter.least)) return parameter.least;
  return std::clamp(static_cast<std::int64_t>(std::round(number)), parameter.least,
                    parameter.greatest);
}

}  // namespace train
