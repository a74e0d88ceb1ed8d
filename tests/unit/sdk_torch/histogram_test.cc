#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch.h>

#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"

namespace train {
namespace {

using testing::failure;

/// Return the histogram of one tensor.
Histogram histogram_of(const torch::Tensor& values, int bins = 4) {
  testing::kept_histograms().clear();
  histogram("x", values, {.bins = bins});
  EXPECT_EQ(testing::kept_histograms().size(), 1u);
  return testing::kept_histograms().at(0).second;
}

TEST(TensorHistogram, CountsTensorsOfEachRealTypeAndLayout) {
  const torch::Tensor values = torch::tensor({0., 1., 1., 2., 3., 4.});
  const Histogram wanted{.min = 0, .max = 4, .counts = {1, 2, 1, 2}};

  for (const auto type : {torch::kFloat64, torch::kFloat32, torch::kFloat16, torch::kBFloat16,
                          torch::kInt64, torch::kUInt8})
    EXPECT_EQ(histogram_of(values.to(type)), wanted) << type;
  EXPECT_EQ(histogram_of(values.reshape({2, 3}).t()), wanted);
  EXPECT_EQ(histogram_of(values.clone().requires_grad_()), wanted);
  EXPECT_EQ(histogram_of(torch::tensor({true, false, true}), 2),
            (Histogram{.min = 0, .max = 1, .counts = {1, 2}}));
  EXPECT_EQ(histogram_of(torch::tensor(5.)), (Histogram{.min = 5, .max = 5, .counts = {1}}));
  EXPECT_EQ(histogram_of(torch::empty({0, 3})), (Histogram{.counts = {0}}));
}

TEST(TensorHistogram, CountsMoreValuesThanOnePieceHas) {
  const std::int64_t size = 3'000'001;
  torch::Tensor values = torch::arange(size, torch::kFloat64);
  values[7] = std::nan("");

  const Histogram made = histogram_of(values, 3);

  EXPECT_EQ(made, (Histogram{.min = 0,
                             .max = static_cast<double>(size - 1),
                             .counts = {999'999, 1'000'000, 1'000'001},
                             .nans = 1}));
}

TEST(TensorHistogram, RefusesWhatIsNotMadeOfRealNumbers) {
  const auto refused = [](const torch::Tensor& values) {
    return failure([&] { histogram("fc1.grad", values); });
  };
  const std::string front = "invalid_argument: histogram 'fc1.grad': the tensor is ";
  const std::string end = " (its values must be real numbers)";
  EXPECT_EQ(refused({}), front + "undefined" + end);
  EXPECT_EQ(refused(torch::zeros({2}, torch::kComplexFloat)), front + "complex" + end);
  EXPECT_EQ(refused(torch::eye(2).to_sparse()), front + "sparse" + end);
}

TEST(TensorHistogram, IsMadeByRankZeroOnly) {
  testing::kept_histograms().clear();
  testing::fake_worker().rank = 1;
  histogram("x", torch::ones({3}));
  testing::fake_worker() = {};
  EXPECT_TRUE(testing::kept_histograms().empty());
}

}  // namespace
}  // namespace train
