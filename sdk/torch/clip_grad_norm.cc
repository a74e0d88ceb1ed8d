#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <train/torch_loop.h>

#include <cmath>

#include "sdk/torch/failure.h"
#include "sdk/torch/gradient_lists.h"

namespace train {
namespace {

/// Return the norm of all gradients together, as torch.nn.utils.get_total_norm computes it.
at::Tensor total_norm(const sdk::GradientLists& gradients, double norm_type) {
  std::vector<at::Tensor> norms;
  for (const auto& [kind, list] : gradients) {
    for (const at::Tensor& norm : at::_foreach_norm(list, norm_type))
      norms.push_back(norms.empty() ? norm : norm.to(norms.front().device()));
  }
  return at::linalg_vector_norm(at::stack(norms), norm_type);
}

}  // namespace

ClippedNorm clip_grad_norm(const std::vector<torch::Tensor>& parameters, double max_norm,
                           const ClipOptions& options) {
  if (!(max_norm > 0) || std::isnan(options.norm_type)) {
    sdk::raise(Error{Errc::InvalidArgument,
                     "clip_grad_norm: max_norm is " + std::to_string(max_norm) + ", norm_type " +
                         std::to_string(options.norm_type),
                     "give a max_norm above 0, and a number as norm_type"});
  }
  return sdk::guarded("clipping gradients", [&] {
    const torch::NoGradGuard no_grad;
    sdk::GradientLists gradients = sdk::gradient_lists(parameters);
    if (gradients.empty()) return ClippedNorm{};
    const at::Tensor norm = total_norm(gradients, options.norm_type);
    const double value = norm.item<double>();
    if (!std::isfinite(value)) {
      // LibTorch's optimizers leave parameters without a gradient alone, and their state, too.
      for (const torch::Tensor& parameter : parameters) parameter.mutable_grad().reset();
      if (options.skipped_steps != nullptr) ++*options.skipped_steps;
      return ClippedNorm{.norm = value, .skipped = true};
    }
    const at::Tensor factor = at::clamp_max(max_norm / (norm + 1e-6), 1.0);
    for (auto& [kind, list] : gradients) at::_foreach_mul_(list, factor.to(list.front().device()));
    return ClippedNorm{.norm = value};
  });
}

ClippedNorm clip_grad_norm(torch::optim::Optimizer& optimizer, double max_norm,
                           const ClipOptions& options) {
  return clip_grad_norm(sdk::parameters_of(optimizer), max_norm, options);
}

}  // namespace train
