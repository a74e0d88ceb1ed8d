#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <train/torch_loop.h>

#include <cmath>
#include <limits>
#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "sdk/client/progress.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/gradient_lists.h"
#include "sdk/torch/sharded_parameter.h"

namespace train {
namespace {

/// Return the norm of all gradients together, as torch.nn.utils.get_total_norm computes it; none if
/// there are no gradients.
std::optional<at::Tensor> total_norm(const std::vector<torch::Tensor>& parameters,
                                     double norm_type) {
  std::vector<at::Tensor> norms;
  for (const auto& [kind, list] : sdk::gradient_lists(parameters)) {
    for (const at::Tensor& norm : at::_foreach_norm(list, norm_type))
      norms.push_back(norms.empty() ? norm : norm.to(norms.front().device()));
  }
  if (norms.empty()) return std::nullopt;
  return at::linalg_vector_norm(at::stack(norms), norm_type);
}

/// Return the norm of gradients of which each rank has rows. Collective: a rank may have none.
at::Tensor norm_over_ranks(const std::vector<torch::Tensor>& pieces, double norm_type) {
  std::vector<torch::Tensor> filled;  // an empty tensor has no largest element
  for (const torch::Tensor& piece : pieces)
    if (piece.numel() > 0) filled.push_back(piece);
  const bool largest = std::isinf(norm_type);
  at::Tensor norm = total_norm(filled, norm_type)
                        .value_or(torch::zeros({}, pieces.front().options().requires_grad(false)))
                        .to(torch::kFloat64);
  // The largest of a number and NaN is either, as it comes.
  if (largest) norm = torch::where(norm.isnan(), std::numeric_limits<double>::infinity(), norm);
  if (const auto group = process_group()) {
    const sdk::InPhase waiting(Phase::Collective, "clip_grad_norm");
    c10d::AllreduceOptions options;
    options.reduceOp = largest ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    std::vector<at::Tensor> sum{largest ? norm : norm.pow(norm_type)};
    group->allreduce(sum, options)->wait();
    norm = largest ? sum[0] : sum[0].pow(1 / norm_type);
  }
  return norm.to(torch::kFloat32);
}

std::optional<at::Tensor> total_norm_of_all(const std::vector<torch::Tensor>& parameters,
                                            double norm_type) {
  if (!sdk::any_pieces(parameters)) return total_norm(parameters, norm_type);
  if (!(norm_type > 0)) {
    sdk::raise(Error{Errc::InvalidArgument,
                     "clip_grad_norm: the parameters of a sharded model have no norm of type " +
                         std::to_string(norm_type),
                     "give a norm_type above 0"});
  }
  std::vector<torch::Tensor> own, pieces;
  for (const torch::Tensor& parameter : parameters)
    (sdk::sharded_parameter(parameter) ? pieces : own).push_back(parameter);
  const std::optional<at::Tensor> norm = total_norm(own, norm_type);
  const at::Tensor of_pieces = norm_over_ranks(pieces, norm_type);
  if (!norm) return of_pieces;
  return at::linalg_vector_norm(at::stack({*norm, of_pieces.to(norm->device())}), norm_type);
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
    const std::optional<at::Tensor> found = total_norm_of_all(parameters, options.norm_type);
    if (!found) return ClippedNorm{};
    const at::Tensor& norm = *found;
    const double value = norm.item<double>();
    if (!std::isfinite(value)) {
      // LibTorch's optimizers leave parameters without a gradient alone, and their state, too.
      for (const torch::Tensor& parameter : parameters) parameter.mutable_grad().reset();
      if (options.skipped_steps != nullptr) ++*options.skipped_steps;
      return ClippedNorm{.norm = value, .skipped = true};
    }
    const at::Tensor factor = at::clamp_max(max_norm / (norm + 1e-6), 1.0);
    for (auto& [kind, list] : sdk::gradient_lists(parameters))
      at::_foreach_mul_(list, factor.to(list.front().device()));
    return ClippedNorm{.norm = value};
  });
}

ClippedNorm clip_grad_norm(torch::optim::Optimizer& optimizer, double max_norm,
                           const ClipOptions& options) {
  return clip_grad_norm(sdk::parameters_of(optimizer), max_norm, options);
}

}  // namespace train
