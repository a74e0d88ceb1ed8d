// What an operator does with its batches, in a world of one: without a driver (docs/driver.md).
#include <gtest/gtest.h>
#include <train/torch_operator.h>
#include <train/torch_shard.h>
#include <train/torch_zero.h>

#include <cmath>
#include <limits>
#include <vector>

namespace train {
namespace {

using Example = torch::data::Example<>;

Example rows(std::initializer_list<double> points, std::initializer_list<std::int64_t> classes) {
  return {torch::tensor(std::vector<double>(points)).to(torch::kFloat32).unsqueeze(1),
          torch::tensor(std::vector<std::int64_t>(classes))};
}

/// A range that counts how many batches were read.
struct Counted {
  std::vector<Example> batches;
  int* read;
  struct Iterator {
    const Counted* of;
    std::size_t at;
    const Example& operator*() const {
      ++*of->read;
      return of->batches[at];
    }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator==(const Iterator& other) const { return at == other.at; }
  };
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, batches.size()}; }
};

/// Makes protected and private parts of an operator callable.
struct Open : TrainingOperator<> {
  void setup(const Config&) override {}
  using TrainingOperator::output_of;
  using TrainingOperator::register_criterion;
  using TrainingOperator::register_data;
  using TrainingOperator::register_local_model;
  using TrainingOperator::register_model;
  using TrainingOperator::register_optimizer;
  using TrainingOperator::register_schedule;
  using TrainingOperator::use_mixed_precision;

  Dict pass(bool training, std::optional<std::int64_t> steps) {
    return training ? train_pass(steps, {}) : validate_pass(steps, {});
  }
  /// A model of one number, at first 1, that is trained with a learning rate of 0.5.
  void make_linear() {
    torch::nn::Linear model(torch::nn::LinearOptions(1, 2).bias(false));
    {
      const torch::NoGradGuard no_grad;
      model->weight.fill_(1);
    }
    linear = register_model(model).ptr();
    optimizer =
        &register_optimizer<torch::optim::SGD>(linear->parameters(), torch::optim::SGDOptions(0.5));
    register_criterion(torch::nn::CrossEntropyLoss());
  }
  std::shared_ptr<torch::nn::LinearImpl> linear;
  torch::optim::SGD* optimizer = nullptr;
};

PassBatches<Example> batches_of(std::vector<Example> all,
                                std::optional<std::int64_t> count = std::nullopt) {
  auto at = std::make_shared<std::size_t>(0);
  return {[all = std::move(all), at]() -> std::optional<Example> {
            if (*at == all.size()) return std::nullopt;
            return all[(*at)++];
          },
          count};
}

TEST(PassMeans, WeighTheBatchesByTheirSamples) {
  detail::PassMeans means;
  means.add({{"loss", 1.0}, {"num_samples", 30}});
  means.add({{"loss", 5}, {"num_samples", 10}});
  const Dict summary = means.summary(true);
  EXPECT_EQ(summary,
            (Dict{{"loss", 2.0}, {"last_loss", 5.0}, {"num_samples", 40}, {"batch_count", 2}}));
  EXPECT_FALSE(means.summary(false).contains("last_loss"));
}

TEST(PassMeans, ABatchWithoutSamplesCountsNothing) {
  detail::PassMeans means;
  means.add({{"loss", std::numeric_limits<double>::quiet_NaN()}, {"num_samples", 0}});
  EXPECT_EQ(means.summary(false), (Dict{{"num_samples", 0}, {"batch_count", 1}}));
  means.add({{"loss", 3.0}});  // one sample
  EXPECT_EQ(means.summary(false).at("loss"), Value(3.0));
}

TEST(PassMeans, RefuseWhatIsNoNumber) {
  detail::PassMeans means;
  EXPECT_THROW(means.add({{"text", "a"}}), Failure);
  EXPECT_THROW(means.add({{"num_samples", -1}}), Failure);
}

TEST(PassBatches, ReadNoMoreThanAskedFor) {
  for (const std::int64_t count : {0, 1, 2}) {
    int read = 0;
    const Counted data{{rows({1}, {0}), rows({2}, {0}), rows({3}, {0})}, &read};
    auto at = std::make_shared<Counted::Iterator>(data.begin());
    PassBatches<Example> batches(
        [&data, at]() -> std::optional<Example> {
          if (*at == data.end()) return std::nullopt;
          Example batch = **at;
          ++*at;
          return batch;
        },
        count);
    int seen = 0;
    for (const Example& batch : batches) seen += batch.data.size(0) == 1 ? 1 : 0;
    EXPECT_EQ(seen, count);
    EXPECT_EQ(read, count);
  }
}

TEST(TrainingOperator, TrainsAndValidatesClassesByDefault) {
  Open op;
  op.make_linear();
  auto training = batches_of({rows({1, 1}, {0, 0}), rows({1}, {0})});
  const Dict trained = op.train_epoch(training, {});
  EXPECT_EQ(trained.at("num_samples"), Value(3));
  EXPECT_EQ(trained.at("batch_count"), Value(2));
  EXPECT_EQ(op.global_step(), 2);
  // By hand: both classes are as likely at first; the first step moves each score by 0.25.
  const double first = std::log(2), second = std::log(1 + std::exp(-0.5));
  EXPECT_NEAR(trained.at("train_loss").as<double>(), (2 * first + second) / 3, 1e-6);
  EXPECT_NEAR(trained.at("last_train_loss").as<double>(), second, 1e-6);

  auto validation = batches_of({rows({1, 1, -1, 1}, {0, 0, 0, 1})});
  const Dict validated = op.validate(validation, {});
  EXPECT_EQ(validated.at("val_accuracy"), Value(0.5));
  EXPECT_EQ(validated.at("num_samples"), Value(4));
  EXPECT_FALSE(validated.contains("last_val_loss"));
}

TEST(TrainingOperator, SchedulesStepWhenTheyAreTo) {
  Open op;
  op.make_linear();
  auto& of_batches = op.register_schedule(*op.optimizer, lr::steps(1, 0.5), SchedulerStep::Batch);
  auto& of_passes = op.register_schedule(*op.optimizer, lr::constant(), SchedulerStep::Epoch);
  auto training = batches_of({rows({1}, {0}), rows({1}, {0})});
  op.train_epoch(training, {});
  EXPECT_EQ(of_batches.steps(), 2);
  EXPECT_EQ(of_passes.steps(), 0);
}

TEST(TrainingOperator, SaysWhichFunctionToOverride) {
  Open without;
  Example batch = rows({1}, {0});
  const auto refused = [&](Open& op) -> std::string {
    try {
      op.train_batch(batch, {});
    } catch (const Failure& why) {
      return why.what();
    }
    return "";
  };
  EXPECT_NE(refused(without).find("override train_batch()"), std::string::npos);
  Open two;
  two.make_linear();
  EXPECT_EQ(refused(two), "");
  two.make_linear();  // a GAN has its own way
  EXPECT_NE(refused(two).find("one model"), std::string::npos);
}

struct PairImpl : torch::nn::Module {
  torch::Tensor weight = register_parameter("weight", torch::ones({1}));
  torch::Tensor forward(const torch::Tensor& a, const torch::Tensor& b) { return weight * a + b; }
};
TORCH_MODULE(Pair);

TEST(TrainingOperator, TakesModelsOfAllKinds) {
  Open of_two;
  auto pair = of_two.register_model(Pair());
  EXPECT_EQ(pair(torch::ones({1}), torch::ones({1})).item<double>(), 2);
  of_two.register_optimizer<torch::optim::SGD>(pair->parameters(), torch::optim::SGDOptions(0.1));
  of_two.register_criterion(torch::nn::MSELoss());
  Example batch = rows({1}, {0});
  EXPECT_THROW(of_two.train_batch(batch, {}), Failure);

  const torch::nn::Sequential layers(torch::nn::Linear(1, 2), torch::nn::ReLU());
  for (const bool local : {false, true}) {
    Open op;
    if (local)
      op.register_local_model(layers);
    else
      op.register_model(layers);
    EXPECT_EQ(op.output_of(torch::ones({3, 1})).sizes(), (std::vector<std::int64_t>{3, 2}));
  }
  Open prepared;
  prepared.register_model(train::prepare_model(torch::nn::Linear(1, 2)));
  EXPECT_EQ(prepared.output_of(torch::ones({3, 1})).size(1), 2);
}

TEST(TrainingOperator, TrainsWhatIsDividedAmongTheRanks) {
  Open sharded;
  const auto model = sharded.register_model(train::fully_shard(torch::nn::Linear(1, 2)));
  sharded.register_optimizer<ZeroOptimizer<torch::optim::AdamW>>(
      std::vector<torch::Tensor>{torch::ones({1}).requires_grad_()});  // of another model
  EXPECT_EQ(sharded.output_of(torch::ones({3, 1})).size(1), 2);

  Open op;
  const auto units = op.register_model(train::fully_shard(torch::nn::Linear(1, 2)));
  op.register_optimizer<torch::optim::SGD>(units.parameters(), torch::optim::SGDOptions(0.5));
  op.register_criterion(torch::nn::CrossEntropyLoss());
  Example batch = rows({1, 1}, {0, 0});
  const double first = op.train_batch(batch, {}).at("train_loss").as<double>();
  EXPECT_LT(op.train_batch(batch, {}).at("train_loss").as<double>(), first);
}

TEST(TrainingOperator, BeginsEachPassAnew) {
  Open op;
  op.make_linear();
  int asked = 0;
  op.register_data(std::vector<Example>{rows({1}, {0}), rows({2}, {1})}, [&asked] {
    ++asked;
    return std::vector<Example>{rows({1}, {0})};
  });
  EXPECT_EQ(op.pass(true, std::nullopt).at("batch_count"), Value(2));
  EXPECT_EQ(op.pass(true, 1).at("batch_count"), Value(1));
  EXPECT_EQ(op.pass(true, std::nullopt).at("batch_count"), Value(2));
  EXPECT_EQ(op.pass(false, std::nullopt).at("batch_count"), Value(1));
  EXPECT_EQ(op.pass(false, std::nullopt).at("num_samples"), Value(1));
  EXPECT_EQ(asked, 2);
}

struct OfBatches final : TrainingOperator<TorchBatch> {
  void setup(const Config&) override {}
};

TEST(TrainingOperator, BatchesOfOtherTypesNeedFunctionsOfTheirOwn) {
  OfBatches op;
  TorchBatch batch;
  EXPECT_THROW(op.train_batch(batch, {}), Failure);
  EXPECT_THROW(op.validate_batch(batch, {}), Failure);
}

TEST(TrainingOperator, ComputesInBfloat16WhereAsked) {
  Open op;
  op.make_linear();
  op.use_mixed_precision(torch::kBFloat16);
  auto validation = batches_of({rows({1.001953125}, {0})});  // that bfloat16 rounds to 1
  const auto cast = Autocast({.dtype = torch::kBFloat16});
  EXPECT_EQ(op.output_of(rows({1.001953125}, {0}).data).scalar_type(), torch::kBFloat16);
  EXPECT_NO_THROW(op.validate(validation, {}));
}

}  // namespace
}  // namespace train
