// These tests need a GPU. Without one, each says so and is skipped.
#include <gtest/gtest.h>
#include <train/torch.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "sdk/torch/cuda_loader.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/fused_steps.h"
#include "tests/unit/sdk_torch/ranks.h"

namespace train {
namespace {

// Count GPUs in a separate process, because CUDA does not survive a fork.
int gpu_count() {
  const auto ends = testing::run_ranks(1, [](int) {
    const sdk::CudaModule* cuda = sdk::cuda_module();
    return std::to_string(cuda == nullptr ? 0 : cuda->device_count());
  });
  return ends[0].exit_code == 0 ? std::stoi(ends[0].result) : -1;
}

class Gpu : public ::testing::Test {
 protected:
  void need(int count) {
    const int found = gpu_count();
    ASSERT_GE(found, 0) << "a GPU is visible, but the CUDA part does not load";
    if (found < count)
      GTEST_SKIP() << "NOT TESTED: needs " << count << " GPUs, this machine shows " << found;
  }
};

TEST_F(Gpu, PreparesAModelOnTheDevice) {
  need(1);
  if (IsSkipped()) return;

  const auto found = testing::results(testing::run_ranks(1, [](int) {
    auto model = prepare_model(torch::nn::Linear(4, 2));
    const auto loss = model(torch::ones({3, 4}, device())).sum();
    loss.backward();
    return loss.device().str() + " " + model->weight.grad().device().str();
  }));

  EXPECT_EQ(found, std::vector<std::string>{"cuda:0 cuda:0"});
}

TEST_F(Gpu, FusedAdamWStepsParametersOfSeveralTypes) {
  need(1);
  if (IsSkipped()) return;

  const auto found = testing::results(testing::run_ranks(1, [](int) {
    // AdamW rounds to bfloat16 several times in a step, and the fused kernel once.
    return std::string(testing::fused_steps_equal_plain({torch::kFloat32, torch::kBFloat16}, 0.05)
                           ? "equal"
                           : "unlike");
  }));

  EXPECT_EQ(found, std::vector<std::string>{"equal"});
}

TEST_F(Gpu, AveragesGradientsOverNccl) {
  need(2);
  if (IsSkipped()) return;

  const auto found = testing::results(testing::run_ranks(2, [](int rank) {
    auto model = prepare_model(torch::nn::Linear(torch::nn::LinearOptions(2, 1).bias(false)));
    model(torch::full({1, 2}, 1.0 + 2.0 * rank, device())).sum().backward();
    return std::to_string(model->weight.grad().mean().item<double>());
  }));

  EXPECT_EQ(found, (std::vector<std::string>{"2.000000", "2.000000"}));
}

}  // namespace
}  // namespace train
