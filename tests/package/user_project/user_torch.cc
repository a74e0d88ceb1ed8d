// Trains a linear model from known weights for one step, with trainrun::torch. The loss is (2 - 0)²
// = 4, then (2 - 0.8)² = 1.44.
#include <train/torch_loop.h>
#include <train/torch_shard.h>
#include <train/torch_zero.h>
#include <train/train.h>

#include <cmath>

int main(int argc, char** argv) {
  return train::run(argc, argv, [] {
    torch::nn::Linear linear(torch::nn::LinearOptions(1, 1).bias(false));
    torch::nn::init::zeros_(linear->weight);
    auto model = train::prepare_model(linear);
    torch::optim::SGD optimizer(model->parameters(), 0.2);
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      const auto loss = (torch::full({1, 1}, 2.0) - model(torch::ones({1, 1}))).square().mean();
      loss.backward();
      train::clip_grad_norm(optimizer, 1e6);
      optimizer.step();
      train::report({{"step", step}, {"loss", std::round(loss.item<double>() * 1000) / 1000}});
    }
    // A sharded model, with an optimizer of each kind that <train/torch*.h> has.
    const auto sharded =
        train::fully_shard(torch::nn::Sequential(train::ShardUnit<torch::nn::LinearImpl>(1, 1)));
    train::FusedAdamW of_rows(sharded.parameters());
    train::ZeroOptimizer<torch::optim::AdamW> zero(model->parameters());
    sharded(torch::ones({1, 1})).sum().backward();
    of_rows.step();
    zero.step();
  });
}
