// The helpers of torch_loop.h, and compressed gradients, on several ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch_loop.h>

#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/ranks.h"

namespace train {
namespace {

using ::testing::ElementsAre;
using testing::results;
using testing::run_ranks;

/// Rank r's micro-batch i has 1 + r + 2 i rows.
torch::Tensor batch_of(int rank, int i) {
  const std::int64_t rows = 1 + rank + 2 * i;
  return torch::linspace(-1 - rank, 1 + i, rows * 3).reshape({-1, 3});
}

torch::nn::Linear some_model() {
  torch::nn::Linear model(3, 2);
  const torch::NoGradGuard no_grad;
  model->weight.copy_(torch::linspace(-1, 1, 6).reshape({2, 3}));
  model->bias.fill_(0.1);
  return model;
}

torch::Tensor loss_of(const torch::Tensor& output) { return (output - 1).square().mean(); }

TEST(LoopRanks, AnAccumulatedStepHasTheMeanGradientOfAllRowsOfAllRanks) {
  const auto found = results(run_ranks(2, [](int rank) {
    at::set_num_threads(1);
    const auto model = prepare_model(some_model());
    std::vector<torch::Tensor> batches;
    for (int i = 0; i < 3; ++i) batches.push_back(batch_of(rank, i));
    torch::Tensor alone;  // this rank's sum before the last batch
    for (auto& micro : accumulate(model, batches, 3)) {
      if (micro.last) alone = model->weight.grad().clone();
      (loss_of(model(micro.batch)) * micro.weight).backward();
    }

    auto bare = some_model();
    std::vector<torch::Tensor> all;
    for (int r = 0; r < 2; ++r)
      for (int i = 0; i < 3; ++i) all.push_back(batch_of(r, i));
    loss_of(bare(torch::cat(all))).backward();
    const bool equal = torch::allclose(model->weight.grad(), bare->weight.grad(), 1e-5, 1e-6) &&
                       torch::allclose(model->bias.grad(), bare->bias.grad(), 1e-5, 1e-6);
    return std::string(equal ? "equal " : "unlike ") + std::to_string(alone.sum().item<double>());
  }));

  ASSERT_EQ(found.size(), 2u);
  for (const std::string& each : found) EXPECT_EQ(each.substr(0, 6), "equal ") << each;
  EXPECT_NE(found[0], found[1]);  // nothing was averaged before the last batch
}

TEST(LoopRanks, ALoopThatIsLeftEarlyAveragesAgain) {
  const auto found = results(run_ranks(2, [](int rank) {
    const auto model = prepare_model(some_model());
    const std::vector<torch::Tensor> batches(4, torch::ones({2, 3}));
    for (auto& micro : accumulate(model, batches, 4))
      if (!micro.last) break;
    model->zero_grad();
    loss_of(model(torch::full({1, 3}, 1.0 + rank))).backward();
    return std::to_string(model->weight.grad().sum().item<double>());
  }));

  EXPECT_EQ(found[0], found[1]);
}

/// Return whether gradients of two ranks are the mean of what each has, made in `type`.
std::string compressed(int rank, GradientCompression compression, torch::Dtype type) {
  at::set_num_threads(1);
  const auto model = prepare_model(some_model(), {.compression = compression});
  std::string found;
  for (int step = 0; step < 3; ++step) {  // the buckets are made anew in the second one
    model->zero_grad();
    loss_of(model(batch_of(rank, step))).backward();
    torch::Tensor expected = torch::zeros({2, 3}, type);
    for (int r = 0; r < 2; ++r) {
      auto bare = some_model();
      loss_of(bare(batch_of(r, step))).backward();
      expected += bare->weight.grad().to(type) / 2;
    }
    const auto gradient = model->weight.grad();
    found += torch::equal(gradient, expected.to(torch::kFloat32)) ? "equal " : "unlike ";
    if (gradient.scalar_type() != torch::kFloat32) found += "another type ";
  }
  return found;
}

TEST(LoopRanks, CompressedGradientsAreTheMeanInTheSmallerType) {
  for (const auto& [compression, type] : {std::pair(GradientCompression::Fp16, torch::kHalf),
                                          std::pair(GradientCompression::Bf16, torch::kBFloat16)}) {
    const auto found = results(
        run_ranks(2, [&, c = compression, t = type](int rank) { return compressed(rank, c, t); }));
    EXPECT_THAT(found, ElementsAre("equal equal equal ", "equal equal equal "));
  }
}

TEST(LoopRanks, AMeterCountsTheRowsOfAllRanks) {
  const auto found = results(run_ranks(2, [](int rank) {
    StepMeter meter;
    meter.add(1, torch::tensor(10.0));
    meter.add(rank == 0 ? 3 : 1, torch::tensor(rank == 0 ? 2.0 : 6.0));
    Dict fields = meter.fields();
    fields.erase("time_total_s");
    fields.erase("time_this_iter_s");
    return to_json(Value(fields));
  }));

  const std::string all =
      R"({"batch_count":2,"last_train_loss":3.0,"num_samples":6,"train_loss":5.333333333333333})";
  EXPECT_THAT(found, ElementsAre(all, all));
}

TEST(LoopRanks, ANormThatIsNotFiniteOnOneRankSkipsTheStepOnAll) {
  const auto found = results(run_ranks(2, [](int rank) {
    const auto model = prepare_model(some_model());
    torch::optim::SGD optimizer(model->parameters(), 1);
    const auto before = model->weight.detach().clone();
    auto batch = batch_of(0, 0);
    if (rank == 1) batch = batch / 0;
    loss_of(model(batch)).backward();
    const ClippedNorm clipped = clip_grad_norm(optimizer, 1);
    optimizer.step();
    return std::string(clipped.skipped ? "skipped " : "made ") +
           (torch::equal(model->weight, before) ? "unchanged" : "changed");
  }));

  EXPECT_THAT(found, ElementsAre("skipped unchanged", "skipped unchanged"));
}

}  // namespace
}  // namespace train
