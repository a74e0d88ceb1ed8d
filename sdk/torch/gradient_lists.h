// Sorts gradients for LibTorch's operators on lists, which take tensors of one device and type.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace train::sdk {

/// By device and type; of sparse gradients, their values.
using GradientLists = std::map<std::pair<std::string, at::ScalarType>, std::vector<at::Tensor>>;

inline GradientLists gradient_lists(const std::vector<torch::Tensor>& parameters) {
  GradientLists lists;
  for (const torch::Tensor& parameter : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (!gradient.defined()) continue;
    if (gradient.is_sparse()) gradient = gradient.coalesce();
    const at::Tensor values = gradient.is_sparse() ? gradient._values() : gradient;
    lists[{values.device().str(), values.scalar_type()}].push_back(values);
  }
  return lists;
}

inline std::vector<torch::Tensor> parameters_of(const torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> parameters;
  for (const auto& group : optimizer.param_groups())
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  return parameters;
}

}  // namespace train::sdk
