// Mixed precision, as torch.amp has it in Python (torch/amp/autocast_mode.py, grad_scaler.py of
// PyTorch 2.11): LibTorch has the parts, without a guard and a scaler around them.
#include <ATen/autocast_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <train/torch_loop.h>

#include <cmath>
#include <utility>

#include "sdk/torch/failure.h"
#include "sdk/torch/gradient_lists.h"
#include "sdk/torch/sharded_parameter.h"

namespace train {
namespace {

namespace amp = at::autocast;

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
  sdk::raise(Error{Errc::InvalidArgument, what, hint});
}

torch::DeviceType checked(torch::DeviceType type) {
  if (type != torch::kCPU && type != torch::kCUDA)
    refuse("train::Autocast: the device is " + c10::DeviceTypeName(type, true),
           "give kCPU or kCUDA");
  return type;
}

}  // namespace

// ---- Autocast

Autocast::Autocast(const AutocastOptions& options)
    : device_(checked(options.device.value_or(device().type()))),
      enabled_before_(amp::is_autocast_enabled(device_)),
      dtype_before_(amp::get_autocast_dtype(device_)),
      cache_before_(amp::is_autocast_cache_enabled()) {
  const torch::Dtype dtype = options.dtype.value_or(dtype_before_);
  if (options.enabled && dtype != torch::kBFloat16 && dtype != torch::kHalf)
    refuse(std::string("train::Autocast: the dtype is ") + torch::toString(dtype),
           "give kBFloat16 or kFloat16");
  amp::set_autocast_enabled(device_, options.enabled);
  amp::set_autocast_dtype(device_, dtype);
  amp::increment_nesting();
  amp::set_autocast_cache_enabled(options.cache_enabled.value_or(cache_before_));
}

Autocast::~Autocast() {
  if (amp::decrement_nesting() == 0) amp::clear_cache();
  amp::set_autocast_enabled(device_, enabled_before_);
  amp::set_autocast_dtype(device_, dtype_before_);
  amp::set_autocast_cache_enabled(cache_before_);
}

// ---- GradScaler

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options), enabled_(options.enabled && options.dtype == torch::kHalf) {
  const auto positive = [](double number) { return std::isfinite(number) && number > 0; };
  if (!positive(options.init_scale) || !positive(options.backoff_factor) ||
      !positive(options.growth_factor) || options.growth_factor <= 1 ||
      options.backoff_factor >= 1 || options.growth_interval < 1) {
    refuse(
        "train::GradScaler: init_scale is to be above 0, growth_factor above 1, backoff_factor "
        "between 0 and 1, and growth_interval at least 1");
  }
}

torch::Tensor GradScaler::scale(const torch::Tensor& outputs) {
  if (!enabled_) return outputs;
  return sdk::guarded("scaling the loss", [&] {
    if (!scale_.defined()) {
      scale_ = torch::full({}, options_.init_scale,
                           torch::dtype(torch::kFloat32).device(outputs.device()));
      growth_tracker_ = torch::full({}, saved_growth_tracker_,
                                    torch::dtype(torch::kInt32).device(outputs.device()));
    }
    return outputs * scale_.to(outputs.device(), /*non_blocking=*/true);
  });
}

void GradScaler::check_scaled(const char* call) const {
  if (scale_.defined()) return;
  refuse(std::string("train::GradScaler: ") + call + " before the first scale()",
         "call backward() of scale(loss) in each step");
}

void GradScaler::unscale(torch::optim::Optimizer& optimizer) {
  if (!enabled_) return;
  check_scaled("unscale()");
  OfOptimizer& of = optimizers_[&optimizer];
  if (of.stage != Stage::Scaled)
    refuse(std::string("train::GradScaler: unscale() after ") +
               (of.stage == Stage::Stepped ? "step()" : "unscale()") + " of the same optimizer",
           "call update() at the end of each step");
  sdk::guarded("unscaling gradients", [&] {
    const torch::NoGradGuard no_grad;
    sdk::GradientLists gradients = sdk::gradient_lists(sdk::parameters_of(optimizer));
    for (const auto& [kind, list] : gradients) {
      if (kind.second == torch::kHalf)
        refuse("the parameters have gradients in float16",
               "keep parameters in float32, and let train::Autocast cast them");
    }
    const at::Tensor inverse = scale_.to(torch::kFloat64).reciprocal().to(torch::kFloat32);
    for (auto& [kind, list] : gradients) {
      const torch::Device where = list.front().device();
      at::Tensor found = torch::zeros({}, torch::dtype(torch::kFloat32).device(where));
      at::_amp_foreach_non_finite_check_and_unscale_(list, found, inverse.to(where));
      of.found_inf.push_back(std::move(found));
    }
    if (!sdk::any_pieces(sdk::parameters_of(optimizer))) return;
    double mine = 0;  // each rank has other rows: one that is not finite counts on all ranks
    for (const at::Tensor& each : of.found_inf) mine += each.item<double>();
    const double all = detail::sums_over_ranks({mine}, "train::GradScaler")[0];
    of.found_inf = {torch::full({}, all > 0 ? 1.0 : 0.0, scale_.options())};
  });
  of.stage = Stage::Unscaled;
}

bool GradScaler::step(torch::optim::Optimizer& optimizer) {
  if (!enabled_) {
    optimizer.step();
    return true;
  }
  check_scaled("step()");
  OfOptimizer& of = optimizers_[&optimizer];
  if (of.stage == Stage::Stepped)
    refuse("train::GradScaler: step() twice for the same optimizer",
           "call update() at the end of each step");
  if (of.stage == Stage::Scaled) unscale(optimizer);
  if (of.found_inf.empty())
    refuse("train::GradScaler: no parameter of the optimizer has a gradient");
  of.stage = Stage::Stepped;
  double found = 0;
  for (const at::Tensor& each : of.found_inf) found += each.item<double>();
  if (found != 0) {
    ++skipped_steps_;
    return false;
  }
  optimizer.step();
  return true;
}

void GradScaler::update() {
  if (!enabled_) return;
  check_scaled("update()");
  sdk::guarded("updating the scale of gradients", [&] {
    at::Tensor found;
    for (const auto& [optimizer, of] : optimizers_) {
      for (const at::Tensor& each : of.found_inf)
        found = found.defined() ? found + each.to(scale_.device()) : each.to(scale_.device());
    }
    if (!found.defined())
      refuse("no gradient was unscaled since the last update()",
             "call step() of each optimizer first");
    at::_amp_update_scale_(scale_, growth_tracker_, found, options_.growth_factor,
                           options_.backoff_factor, options_.growth_interval);
  });
  optimizers_.clear();
}

double GradScaler::get_scale() const {
  if (!enabled_) return 1;
  return scale_.defined() ? scale_.item<double>() : options_.init_scale;
}

std::int64_t GradScaler::growth_tracker() const {
  if (!enabled_) return 0;
  return growth_tracker_.defined() ? growth_tracker_.item<std::int64_t>() : saved_growth_tracker_;
}

Dict GradScaler::state() const {
  if (!enabled_) return {};
  return {{"scale", get_scale()},
          {"growth_factor", options_.growth_factor},
          {"backoff_factor", options_.backoff_factor},
          {"growth_interval", options_.growth_interval},
          {"_growth_tracker", growth_tracker()},
          {"skipped_steps", skipped_steps_}};
}

void GradScaler::load_state(const Dict& state) {
  if (!enabled_) return;
  if (state.empty())
    refuse("the state is of a GradScaler that was off", "make this one with enabled = false");
  const Config said(state);
  GradScalerOptions options = options_;
  options.init_scale = said.get<double>("scale");
  options.growth_factor = said.get<double>("growth_factor");
  options.backoff_factor = said.get<double>("backoff_factor");
  options.growth_interval = said.get<std::int64_t>("growth_interval");
  const auto tracker = said.get<std::int32_t>("_growth_tracker");
  const auto skipped = said.get<std::int64_t>("skipped_steps", 0);
  if (tracker < 0 || skipped < 0 || skipped > (std::int64_t{1} << 53))
    sdk::raise(Error{Errc::Corrupt, "the counts of a GradScaler are not counts"});
  (void)GradScaler(options);  // throws for numbers that no GradScaler has
  options_ = options;
  saved_growth_tracker_ = tracker;
  skipped_steps_ = skipped;
  scale_ = growth_tracker_ = torch::Tensor();  // scale() makes them anew
  optimizers_.clear();
}

}  // namespace train
