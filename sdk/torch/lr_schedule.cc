// Schedules of the learning rate. The formulas are the closed forms of torch.optim.lr_scheduler
// (PyTorch 2.11).
#include <train/torch_loop.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sdk/torch/failure.h"

namespace train {
namespace {

constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kCountMax = std::int64_t{1} << 53;

[[noreturn]] void refuse(const std::string& what) {
  sdk::raise(Error{Errc::InvalidArgument, what});
}

void check_count(std::int64_t count, std::int64_t least, const char* what) {
  if (count < least || count > kCountMax)
    refuse(std::string(what) + " is " + std::to_string(count) + ", give at least " +
           std::to_string(least));
}

/// Return the way from `begin` to `end` as it is at `part`, 0 to 1, along half a cosine.
double along_cosine(double begin, double end, double part) {
  return end + (begin - end) / 2.0 * (std::cos(std::numbers::pi * part) + 1);
}

}  // namespace

// ---- curves

LrCurve::LrCurve(std::function<double(std::int64_t)> factor) {
  if (!factor) refuse("a schedule of the learning rate is made of an empty function");
  phases_.push_back(
      {kForever, [factor = std::move(factor)](double, std::int64_t step) { return factor(step); }});
}

LrCurve LrCurve::then(std::int64_t steps,
                      std::function<double(double, std::int64_t)> factor) const {
  LrCurve longer = *this;
  longer.phases_.push_back({steps, std::move(factor)});
  return longer;
}

LrCurve LrCurve::constant(std::int64_t steps) const {
  check_count(steps, 0, "the number of steps");
  return then(steps, [](double begin, std::int64_t) { return begin; });
}

LrCurve LrCurve::linear(std::int64_t steps, double end) const {
  check_count(steps, 0, "the number of steps");
  return then(steps, [steps, end](double begin, std::int64_t step) {
    if (step >= steps) return end;
    return begin + (end - begin) * static_cast<double>(step) / static_cast<double>(steps);
  });
}

LrCurve LrCurve::cosine(std::int64_t steps, double end) const {
  check_count(steps, 0, "the number of steps");
  return then(steps, [steps, end](double begin, std::int64_t step) {
    if (step >= steps) return end;
    return along_cosine(begin, end, static_cast<double>(step) / static_cast<double>(steps));
  });
}

LrCurve LrCurve::steps(std::int64_t every, double gamma) const {
  check_count(every, 1, "the number of steps between two changes");
  return then(kForever, [every, gamma](double begin, std::int64_t step) {
    const std::int64_t passed = step / every;
    return begin * std::pow(gamma, static_cast<double>(passed));
  });
}

LrCurve LrCurve::milestones(std::vector<std::int64_t> at, double gamma) const {
  for (const std::int64_t step : at) check_count(step, 0, "a milestone");
  std::sort(at.begin(), at.end());
  return then(kForever, [at = std::move(at), gamma](double begin, std::int64_t step) {
    const auto passed = std::upper_bound(at.begin(), at.end(), step) - at.begin();
    return begin * std::pow(gamma, static_cast<double>(passed));
  });
}

double LrCurve::operator()(std::int64_t step) const {
  double begin = begin_;
  for (const Phase& phase : phases_) {
    if (step < phase.steps) return phase.factor(begin, step);
    begin = phase.factor(begin, phase.steps);
    step -= phase.steps;
  }
  return begin;
}

LrCurve lr::one_cycle(const OneCycleOptions& options) {
  check_count(options.total_steps, 1, "total_steps of one_cycle");
  if (!(options.pct_start >= 0 && options.pct_start <= 1) || !(options.div_factor > 0) ||
      !(options.final_div_factor > 0))
    refuse("one_cycle: pct_start is to be from 0 to 1, div_factor and final_div_factor above 0");
  struct Leg {
    double end_step, begin, end;
  };
  const double first = 1 / options.div_factor, last = first / options.final_div_factor;
  const auto total = static_cast<double>(options.total_steps);
  const double up = options.pct_start * total;
  std::vector<Leg> legs{{up - 1, first, 1}, {total - 1, 1, last}};
  if (options.three_phase)
    legs = {{up - 1, first, 1}, {2 * up - 2, 1, first}, {total - 1, first, last}};
  return LrCurve([legs, linear = options.linear](std::int64_t step) {
    double start = 0;
    for (const Leg& leg : legs) {
      const double at = static_cast<double>(step);
      if (at <= leg.end_step || &leg == &legs.back()) {
        if (at >= leg.end_step) return leg.end;
        const double part = (at - start) / (leg.end_step - start);
        return linear ? (leg.end - leg.begin) * part + leg.begin
                      : along_cosine(leg.begin, leg.end, part);
      }
      start = leg.end_step;
    }
    return legs.back().end;
  });
}

// ---- schedules

LrSchedule::LrSchedule(torch::optim::Optimizer& optimizer, LrCurve curve)
    : optimizer_(&optimizer), curve_(std::move(curve)) {
  std::vector<double> base;
  for (std::size_t i = 0; i < optimizer.param_groups().size(); ++i) base.push_back(lr(i));
  set(0, std::move(base));
}

LrSchedule::LrSchedule(torch::optim::Optimizer& optimizer, const PlateauOptions& plateau)
    : LrSchedule(optimizer, LrCurve()) {
  if (!(plateau.factor > 0 && plateau.factor < 1) || plateau.patience < 0 || plateau.cooldown < 0 ||
      !(plateau.min_lr >= 0))
    refuse(
        "a plateau's factor is to be between 0 and 1, its patience, cooldown and min_lr at "
        "least 0");
  plateau_ = plateau;
}

double LrSchedule::lr(std::size_t group) const {
  return optimizer_->param_groups().at(group).options().get_lr();
}

void LrSchedule::step() {
  if (plateau_) refuse("a plateau's schedule steps by a metric: call step(metric)");
  set(steps_ + 1, base_);
}

void LrSchedule::set(std::int64_t steps, std::vector<double> base) {
  const double factor = curve_(steps);
  if (!std::isfinite(factor) || factor < 0)
    refuse("the schedule of the learning rate gives " + std::to_string(factor) + " at step " +
           std::to_string(steps));
  for (std::size_t i = 0; i < base.size(); ++i)
    optimizer_->param_groups().at(i).options().set_lr(base[i] * factor);
  steps_ = steps;
  base_ = std::move(base);
}

void LrSchedule::step(double metric) {
  if (!plateau_) refuse("this schedule is a function of the steps: call step() without a metric");
  const PlateauOptions& how = *plateau_;
  ++steps_;
  const double sign = how.maximize ? -1 : 1;
  const auto bound = [&](double best) {
    return how.absolute ? best - sign * how.threshold : best * (1 - sign * how.threshold);
  };
  const double worst = sign * std::numeric_limits<double>::infinity();
  const bool better = sign * metric < sign * bound(best_.value_or(worst));  // NaN never is
  if (better) best_ = metric;
  bad_ = better ? 0 : bad_ + 1;
  if (cooldown_ > 0) {
    --cooldown_;
    bad_ = 0;
  }
  if (bad_ <= how.patience) return;
  reduce();
  cooldown_ = how.cooldown;
  bad_ = 0;
}

void LrSchedule::reduce() {
  for (auto& group : optimizer_->param_groups()) {
    const double before = group.options().get_lr();
    const double after = std::max(before * plateau_->factor, plateau_->min_lr);
    if (before - after > plateau_->eps) group.options().set_lr(after);
  }
}

Dict LrSchedule::state() const {
  List base, now;
  for (std::size_t i = 0; i < base_.size(); ++i) {
    base.emplace_back(base_[i]);
    now.emplace_back(lr(i));
  }
  Dict state{{"steps", steps_}, {"base_lrs", std::move(base)}};
  if (!plateau_) return state;
  state["lrs"] = std::move(now);
  state["best"] = best_ ? Value(*best_) : Value();
  state["num_bad"] = bad_;
  state["cooldown"] = cooldown_;
  return state;
}

void LrSchedule::load_state(const Dict& state) {
  const Config said(state);
  const auto rates = [&](const char* name) {
    auto list = said.get<std::vector<double>>(name);
    if (list.size() != base_.size())
      refuse("the schedule is of an optimizer with " + std::to_string(list.size()) +
             " groups, this one has " + std::to_string(base_.size()));
    for (const double rate : list)
      if (!std::isfinite(rate) || rate < 0)
        sdk::raise(Error{Errc::Corrupt, std::string("\"") + name + "\" holds no learning rate"});
    return list;
  };
  const auto count = [&](const char* name) {
    const auto number = said.get<std::int64_t>(name);
    if (number < 0 || number > kCountMax)
      sdk::raise(Error{Errc::Corrupt, std::string("\"") + name + "\" is not a count"});
    return number;
  };
  const std::int64_t steps = count("steps");
  const std::vector<double> base = rates("base_lrs");
  if (!plateau_) return set(steps, base);
  const std::vector<double> now = rates("lrs");
  const std::int64_t bad = count("num_bad"), cooldown = count("cooldown");
  const auto best = state.find("best");
  const bool has_best = best != state.end() && !best->second.is_null();
  best_ = has_best ? std::optional(best->second.as<double>()) : std::nullopt;
  steps_ = steps, base_ = base, bad_ = bad, cooldown_ = cooldown;
  for (std::size_t i = 0; i < now.size(); ++i)
    optimizer_->param_groups()[i].options().set_lr(now[i]);
}

}  // namespace train
