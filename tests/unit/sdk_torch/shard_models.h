// Models that tests shard, and what they compare.
#pragma once

#include <train/torch_loop.h>
#include <train/torch_shard.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace train::testing {

using Tensors = std::vector<torch::Tensor>;

/// A residual block, whose rows no two or three ranks divide evenly, with a scalar.
struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(std::int64_t width)
      : up(register_module("up", torch::nn::Linear(width, 7))),
        down(register_module("down", torch::nn::Linear(7, width))),
        scale(register_parameter("scale", torch::ones({}))) {}
  torch::Tensor forward(torch::Tensor x) { return x + scale * down(torch::tanh(up(x))); }
  torch::nn::Linear up, down;
  torch::Tensor scale;
};
using Block = ShardUnit<BlockImpl>;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : embed(register_module("embed", torch::nn::Linear(5, 6))),
        blocks(register_module("blocks", torch::nn::Sequential(Block(6), Block(6), Block(6)))),
        norm(register_module("norm", torch::nn::BatchNorm1d(6))),
        head(register_module("head", torch::nn::Linear(6, 3))) {}
  torch::Tensor forward(torch::Tensor x) { return head(norm(blocks->forward(embed(x)))); }
  torch::nn::Linear embed;
  torch::nn::Sequential blocks;
  torch::nn::BatchNorm1d norm;
  torch::nn::Linear head;
};
TORCH_MODULE(Net);

/// The same on every rank, for the same seed.
inline Net make_net(std::uint64_t seed = 1) {
  torch::manual_seed(seed);
  return Net();
}

inline torch::Tensor batch_of(int rank, int step) {
  return torch::sin(torch::linspace(-1 - rank, 2 + step, 20)).reshape({4, 5});
}
inline torch::Tensor loss_of(const torch::Tensor& out) { return (out - 0.5).square().mean(); }

/// Return copies of all parameters and buffers of a module.
inline Tensors state_of(const torch::nn::Module& module) {
  Tensors state;
  for (const auto& each : module.parameters()) state.push_back(each.detach().clone());
  for (const auto& each : module.buffers()) state.push_back(each.clone());
  return state;
}
template <class Impl>
Tensors state_of(const DataParallel<Impl>& model) {
  return state_of(*model.module());
}
template <class Impl>
Tensors state_of(const FullySharded<Impl>& model) {
  const auto whole = model.whole();
  return state_of(*model.module());
}

/// Return "equal", "close", or how far the tensors are apart.
inline std::string compare(const Tensors& a, const Tensors& b) {
  if (a.size() != b.size()) return "other numbers";
  double most = 0;
  bool equal = true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].sizes() != b[i].sizes()) return "other shapes";
    equal = equal && torch::equal(a[i], b[i]);
    if (a[i].numel() > 0)
      most = std::max(most, (a[i] - b[i]).abs().max().to(torch::kFloat64).item<double>());
  }
  if (equal) return "equal";
  return most < 1e-5 ? "close" : "apart by " + std::to_string(most);
}

/// Take steps from `from` to `to`, as a loop does.
template <class Model>
void train_steps(const Model& model, torch::optim::Optimizer& optimizer, int rank, int from,
                 int to) {
  for (int step = from; step < to; ++step) {
    optimizer.zero_grad();
    loss_of(model(batch_of(rank, step))).backward();
    optimizer.step();
  }
}

}  // namespace train::testing
