// Compares FusedAdamW with torch::optim::AdamW.
#pragma once

#include <train/torch.h>

#include <vector>

namespace train::testing {

/// Let both optimizers make a few steps with one parameter of each type on device(). Return whether
/// they end at the same parameters.
inline bool fused_steps_equal_plain(const std::vector<torch::ScalarType>& types, double tolerance) {
  std::vector<torch::Tensor> plain, fused;
  for (const torch::ScalarType type : types) {
    plain.push_back(torch::linspace(-1, 1, 8, torch::dtype(type).device(device())));
    fused.push_back(plain.back().clone());
  }
  const auto options = torch::optim::AdamWOptions(0.1).weight_decay(0.1);
  torch::optim::AdamW plain_optimizer(plain, options);
  FusedAdamW fused_optimizer(fused, options);
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < types.size(); ++i) {
      plain[i].mutable_grad() = torch::full_like(plain[i], 0.5);
      fused[i].mutable_grad() = torch::full_like(fused[i], 0.5);
    }
    plain_optimizer.step();
    fused_optimizer.step();
  }
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!torch::allclose(plain[i], fused[i], tolerance, tolerance)) return false;
  return true;
}

}  // namespace train::testing
