#include <ATen/ops/_fused_adamw.h>
#include <train/torch.h>

#include <map>
#include <tuple>

#include "sdk/torch/failure.h"

namespace train {
namespace {

/// What the parameters of one call of the kernel have in common.
using Kind = std::tuple<std::int64_t, c10::DeviceType, c10::DeviceIndex, at::ScalarType>;

Kind kind_of(const at::Tensor& parameter, std::int64_t step) {
  return {step, parameter.device().type(), parameter.device().index(), parameter.scalar_type()};
}

/// The arguments of one call of the kernel.
struct Lists {
  std::vector<at::Tensor> parameters, gradients, means, squares, square_maxima, steps;
};

torch::optim::AdamWParamState& state_of(torch::optim::Optimizer& optimizer,
                                        const at::Tensor& parameter, bool amsgrad) {
  auto& state = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (state == nullptr) {
    auto fresh = std::make_unique<torch::optim::AdamWParamState>();
    fresh->exp_avg(torch::zeros_like(parameter, torch::MemoryFormat::Preserve));
    fresh->exp_avg_sq(torch::zeros_like(parameter, torch::MemoryFormat::Preserve));
    if (amsgrad) fresh->max_exp_avg_sq(torch::zeros_like(parameter, torch::MemoryFormat::Preserve));
    state = std::move(fresh);
  }
  return static_cast<torch::optim::AdamWParamState&>(*state);
}

}  // namespace

torch::Tensor FusedAdamW::step(LossClosure closure) {
  torch::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode record(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  for (auto& group : param_groups_) {
    const auto& options = static_cast<const torch::optim::AdamWOptions&>(group.options());
    std::map<Kind, Lists> by_kind;
    for (const at::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      if (parameter.grad().is_sparse()) {
        sdk::raise(Error{Errc::InvalidArgument, "train::FusedAdamW takes no sparse gradients",
                         "use torch::optim::SparseAdam"});
      }
      auto& state = state_of(*this, parameter, options.amsgrad());
      state.step(state.step() + 1);
      Lists& lists = by_kind[kind_of(parameter, state.step())];
      lists.parameters.push_back(parameter);
      lists.gradients.push_back(parameter.grad());
      lists.means.push_back(state.exp_avg());
      lists.squares.push_back(state.exp_avg_sq());
      if (options.amsgrad()) lists.square_maxima.push_back(state.max_exp_avg_sq());
    }
    for (auto& [kind, lists] : by_kind) {
      const auto count = torch::full({}, static_cast<float>(std::get<std::int64_t>(kind)),
                                     lists.parameters.front().options().dtype(torch::kFloat32));
      lists.steps.assign(lists.parameters.size(), count);
      at::_fused_adamw_(
          lists.parameters, lists.gradients, lists.means, lists.squares, lists.square_maxima,
          lists.steps, options.lr(), std::get<0>(options.betas()), std::get<1>(options.betas()),
          options.weight_decay(), options.eps(), options.amsgrad(), /*maximize=*/false);
    }
  }
  return loss;
}

}  // namespace train
