// A LibTorch worker: it records when LibTorch is loaded, when its group has joined over gloo, and
// when the first step of data parallel training is done; then it ends, or steps until it is killed
// (events.h). With the argument "load" it ends after its first line, to measure the loading of
// LibTorch alone.
#include <torch/torch.h>
#include <train/torch.h>
#include <train/train.h>

#include <string_view>

#include "benchmarks/programs/events.h"

int main(int argc, char** argv) {
  const bool load_only = argc > 1 && std::string_view(argv[1]) == "load";
  torch::ones({1});  // the libraries are mapped and initialised
  bench::event("first_line");
  if (load_only) return 0;
  return train::run(argc, argv, [] {
    const bool held = bench::held();
    auto model = train::prepare_model(torch::nn::Linear(16, 4));
    bench::event("joined");
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    bool first = true;
    do {
      optimizer.zero_grad();
      model->forward(torch::randn({8, 16})).square().mean().backward();
      optimizer.step();
      if (first) bench::event("first_step");
      first = false;
    } while (held);
  });
}
