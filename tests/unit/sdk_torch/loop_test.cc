// The helpers of torch_loop.h in a world of one. torch_reference_test.cc compares their numbers
// with PyTorch's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch_loop.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "sdk/torch/reproducible.h"
#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::failure;
using ::testing::HasSubstr;

constexpr double kInf = std::numeric_limits<double>::infinity();

class Loop : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/train-loop-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    testing::fake_worker() = {};
    at::set_num_threads(1);
    torch::manual_seed(1);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder() const { return folder_.string(); }

  fs::path folder_;
};

// ---- mixed precision

TEST_F(Loop, AutocastHoldsWithinItsScopeOnly) {
  const auto x = torch::ones({2, 2});
  const auto type = [&] { return torch::mm(x, x).scalar_type(); };
  {
    const Autocast outer;
    EXPECT_EQ(type(), torch::kBFloat16);  // LibTorch's own choice for CPUs
    {
      const Autocast inner({.enabled = false});
      EXPECT_EQ(type(), torch::kFloat32);
    }
    {
      const Autocast half({.dtype = torch::kHalf});
      EXPECT_EQ(type(), torch::kHalf);
    }
    EXPECT_EQ(type(), torch::kBFloat16);
  }
  EXPECT_EQ(type(), torch::kFloat32);
}

TEST_F(Loop, AutocastKeepsCastsOfParametersUntilItEnds) {
  const auto x = torch::ones({1, 2});
  torch::nn::Linear linear{nullptr};
  const auto after_change = [&](std::optional<bool> cache) {
    linear = torch::nn::Linear(2, 2);
    const Autocast autocast({.cache_enabled = cache});
    linear(x);
    const torch::NoGradGuard no_grad;
    linear->weight.zero_();  // what is cached does not see it
    linear->bias.zero_();
    const at::AutoGradMode record(true);
    return linear(x).abs().sum().item<double>();
  };

  EXPECT_EQ(after_change(false), 0);
  EXPECT_GT(after_change({}), 0);
  EXPECT_EQ(linear(x).abs().sum().item<double>(), 0);
}

TEST_F(Loop, AutocastRefusesWhatItCannotDo) {
  EXPECT_EQ(failure([] { Autocast({.dtype = torch::kFloat32}); }),
            "invalid_argument: train::Autocast: the dtype is Float (give kBFloat16 or kFloat16)");
  EXPECT_EQ(failure([] { Autocast({.device = torch::kMPS}); }),
            "invalid_argument: train::Autocast: the device is mps (give kCPU or kCUDA)");
  EXPECT_EQ(torch::mm(torch::ones({1, 1}), torch::ones({1, 1})).scalar_type(), torch::kFloat32);
}

TEST_F(Loop, AScalerIsOffForTypesThatNeedNone) {
  auto weight = torch::ones({1}, torch::requires_grad());
  torch::optim::SGD optimizer({weight}, 1);
  GradScaler scaler({.dtype = torch::kBFloat16});

  EXPECT_FALSE(scaler.is_enabled());
  scaler.scale(weight.sum()).backward();
  scaler.unscale(optimizer);
  EXPECT_TRUE(scaler.step(optimizer));
  scaler.update();

  EXPECT_EQ(weight.item<double>(), 0);
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_EQ(scaler.state(), Dict{});
}

TEST_F(Loop, AScalerSaysWhichCallIsOutOfOrder) {
  auto weight = torch::ones({1}, torch::requires_grad());
  torch::optim::SGD optimizer({weight}, 1);
  GradScaler scaler, without_gradients;

  EXPECT_THAT(failure([&] { scaler.step(optimizer); }), HasSubstr("step() before the first scale"));
  EXPECT_THAT(failure([&] { scaler.update(); }), HasSubstr("update() before the first scale()"));
  without_gradients.scale(weight.sum());
  EXPECT_THAT(failure([&] { without_gradients.step(optimizer); }),
              HasSubstr("no parameter of the optimizer has a gradient"));
  EXPECT_THAT(failure([&] { without_gradients.update(); }), HasSubstr("no gradient was unscaled"));
  scaler.scale(weight.sum()).backward();
  scaler.unscale(optimizer);
  EXPECT_THAT(failure([&] { scaler.unscale(optimizer); }),
              HasSubstr("unscale() after unscale() of the same optimizer"));
  scaler.step(optimizer);
  EXPECT_THAT(failure([&] { scaler.unscale(optimizer); }), HasSubstr("unscale() after step()"));
  EXPECT_THAT(failure([&] { scaler.step(optimizer); }), HasSubstr("step() twice"));
}

TEST_F(Loop, AScalerRefusesGradientsInFloat16) {
  auto weight = torch::ones({1}, torch::dtype(torch::kHalf).requires_grad(true));
  torch::optim::SGD optimizer({weight}, 1);
  GradScaler scaler({.init_scale = 2});
  scaler.scale(weight.sum()).backward();

  EXPECT_THAT(failure([&] { scaler.unscale(optimizer); }),
              HasSubstr("the parameters have gradients in float16"));
}

TEST_F(Loop, AScalerRefusesNumbersThatMakeNoSense) {
  for (const GradScalerOptions& wrong : {GradScalerOptions{.init_scale = 0},
                                         {.init_scale = kInf},
                                         {.growth_factor = 1},
                                         {.backoff_factor = 1},
                                         {.backoff_factor = std::nan("")},
                                         {.growth_interval = 0}})
    EXPECT_THAT(failure([&] { GradScaler scaler(wrong); }), HasSubstr("init_scale is to be above"));
}

// ---- clipping

TEST_F(Loop, AStepWhoseNormIsNotFiniteIsSkippedAndCounted) {
  auto weight = torch::ones({2}, torch::requires_grad());
  torch::optim::AdamW optimizer({weight}, torch::optim::AdamWOptions(0.1).weight_decay(0.1));
  const auto make_step = [&](double factor) {
    optimizer.zero_grad();
    (weight * factor).sum().backward();
  };
  std::int64_t skipped = 0;
  make_step(1);
  EXPECT_FALSE(clip_grad_norm(optimizer, 1, {.skipped_steps = &skipped}).skipped);
  optimizer.step();
  const auto before = weight.detach().clone();
  const auto* state = static_cast<torch::optim::AdamWParamState*>(
      optimizer.state()[weight.unsafeGetTensorImpl()].get());
  const auto moments = state->exp_avg().clone();

  for (const double factor : {kInf, std::nan(""), 1e30}) {  // the last one's square overflows
    make_step(factor);
    const ClippedNorm clipped = clip_grad_norm(optimizer, 1, {.skipped_steps = &skipped});
    optimizer.step();
    EXPECT_TRUE(clipped.skipped);
    EXPECT_FALSE(std::isfinite(clipped.norm));
  }

  EXPECT_EQ(skipped, 3);
  EXPECT_TRUE(torch::equal(weight, before));
  EXPECT_TRUE(torch::equal(state->exp_avg(), moments));
  EXPECT_EQ(state->step(), 1);
}

TEST_F(Loop, NothingIsClippedWithoutGradients) {
  torch::optim::SGD optimizer({torch::ones({1}, torch::requires_grad())}, 1);
  const ClippedNorm clipped = clip_grad_norm(optimizer, 1);
  EXPECT_EQ(clipped.norm, 0);
  EXPECT_FALSE(clipped.skipped);
  EXPECT_THAT(failure([&] { clip_grad_norm(optimizer, 0); }), HasSubstr("max_norm is 0"));
}

TEST_F(Loop, SparseGradientsAreClippedByTheirValues) {
  torch::nn::Embedding table(torch::nn::EmbeddingOptions(5, 2).sparse(true));
  table(torch::tensor({1, 1, 3})).sum().backward();  // row 1 twice: (2, 2), row 3 once: (1, 1)
  const ClippedNorm clipped = clip_grad_norm(table->parameters(), 1);

  EXPECT_NEAR(clipped.norm, std::sqrt(10), 1e-6);
  EXPECT_NEAR(table->weight.grad().to_dense().norm().item<double>(), 1, 1e-5);
}

// ---- learning rates

TEST_F(Loop, ASchedulesPhasesFollowEachOther) {
  const LrCurve curve = lr::warmup(2).constant(2).linear(2, 0.5).steps(2, 0.5);
  std::vector<double> factors;
  for (int step = 0; step < 11; ++step) factors.push_back(curve(step));
  EXPECT_THAT(factors, ElementsAre(0, 0.5, 1, 1, 1, 0.75, 0.5, 0.5, 0.25, 0.25, 0.125));
  EXPECT_EQ(lr::warmup(0)(0), 1);
}

TEST_F(Loop, EachGroupHasItsOwnLearningRate) {
  using torch::optim::OptimizerParamGroup;
  using torch::optim::SGDOptions;
  torch::optim::SGD optimizer(
      {OptimizerParamGroup({torch::ones(1)}, std::make_unique<SGDOptions>(1)),
       OptimizerParamGroup({torch::ones(1)}, std::make_unique<SGDOptions>(2))},
      SGDOptions(1));
  LrSchedule schedule(optimizer, lr::linear(4));
  schedule.step();
  EXPECT_EQ(schedule.lr(0), 0.75);
  EXPECT_EQ(schedule.lr(1), 1.5);
}

TEST_F(Loop, ASchedulesMistakesAreNamed) {
  torch::optim::SGD optimizer({torch::ones(1)}, 1);
  const auto with = [&](const LrCurve& curve) {
    return failure([&] { LrSchedule schedule(optimizer, curve); });
  };
  EXPECT_THAT(with(lr::lambda([](std::int64_t) { return std::nan(""); })),
              HasSubstr("the schedule of the learning rate gives nan at step 0"));
  EXPECT_THAT(with(lr::linear(1, 0).constant(1).linear(0, -1)), "none");  // negative from step 2 on
  EXPECT_THAT(failure([] { lr::cosine(-1); }), HasSubstr("the number of steps is -1"));
  EXPECT_THAT(failure([] { lr::steps(0); }), HasSubstr("between two changes is 0"));
  EXPECT_THAT(failure([] { lr::one_cycle({}); }), HasSubstr("total_steps of one_cycle is 0"));
  EXPECT_THAT(failure([] { lr::lambda({}); }), HasSubstr("empty function"));
  LrSchedule curve(optimizer, lr::constant());
  EXPECT_THAT(failure([&] { curve.step(0.5); }), HasSubstr("call step() without a metric"));
  LrSchedule plateau(optimizer, PlateauOptions{});
  EXPECT_THAT(failure([&] { plateau.step(); }), HasSubstr("call step(metric)"));
  EXPECT_THAT(failure([&] { LrSchedule(optimizer, PlateauOptions{.factor = 1}); }),
              HasSubstr("factor is to be between 0 and 1"));
}

// ---- state

/// A loop with everything in it.
struct Training {
  explicit Training(double lr = 1e-2)
      : optimizer(model->parameters(), torch::optim::AdamWOptions(lr)),
        scaler({.init_scale = 1024, .growth_interval = 4}),
        schedule(optimizer, lr::warmup(3).cosine(20)) {}
  void steps(int from, int count) {
    for (int step = from; step < from + count; ++step) {
      optimizer.zero_grad();
      scaler.scale((model(torch::full({1, 4}, 1.0 + step)) - 1).square().mean()).backward();
      if (step == 2) model->weight.mutable_grad().fill_(kInf);
      if (scaler.step(optimizer)) schedule.step();
      scaler.update();
    }
  }
  StateRefs refs() {
    return {.modules = {model.get()}, .optimizers = {&optimizer}, .stateful = {&scaler, &schedule}};
  }
  torch::nn::Linear model{4, 2};
  torch::optim::AdamW optimizer;
  GradScaler scaler;
  LrSchedule schedule;
};

TEST_F(Loop, ScaleAndScheduleGoOnWhereTheyWereSaved) {
  Training first;
  first.steps(0, 6);
  save_state(folder(), first.refs());
  const Dict saved = first.scaler.state();
  first.steps(6, 10);

  torch::manual_seed(2);
  Training second(0.5);  // its own learning rate is another
  load_state(folder(), second.refs());
  EXPECT_EQ(second.scaler.state(), saved);
  EXPECT_EQ(saved.at("skipped_steps"), Value(1));
  EXPECT_EQ(second.schedule.steps(), 5);
  second.steps(6, 10);

  EXPECT_TRUE(torch::equal(first.model->weight, second.model->weight));
  EXPECT_EQ(first.scaler.state(), second.scaler.state());
  EXPECT_EQ(first.schedule.state(), second.schedule.state());
  EXPECT_EQ(first.schedule.lr(), second.schedule.lr());
}

TEST_F(Loop, APlateauGoesOnWhereItWasSaved) {
  torch::optim::SGD optimizer({torch::ones(1)}, 1), other({torch::ones(1)}, 0.3);
  const PlateauOptions options{.factor = 0.5, .patience = 1, .cooldown = 1};
  LrSchedule schedule(optimizer, options), restored(other, options);
  save_state(folder(), {.stateful = {&schedule}});  // has no best metric yet
  load_state(folder(), {.stateful = {&restored}});
  EXPECT_EQ(restored.state(), schedule.state());
  for (const double metric : {3., 2., 2., 2., 2.}) schedule.step(metric);
  save_state(folder(), {.stateful = {&schedule}});
  load_state(folder(), {.stateful = {&restored}});
  for (const double metric : {2., 2., 2., 2.}) {
    schedule.step(metric);
    restored.step(metric);
    EXPECT_EQ(restored.lr(), schedule.lr());
  }
  EXPECT_EQ(restored.state(), schedule.state());
  EXPECT_LT(schedule.lr(), 0.5);
}

struct Counter : Stateful {
  std::string kind() const override { return "Counter"; }
  Dict state() const override { return {{"count", count}}; }
  void load_state(const Dict& state) override { count = Config(state).get<int>("count"); }
  int count = 0;
};

TEST_F(Loop, AProgramsOwnStateIsSavedBesideTheRest) {
  Counter counter;
  counter.count = 7;
  save_state(folder(), {.stateful = {&counter}});
  counter.count = 0;
  load_state(folder(), {.stateful = {&counter}});
  EXPECT_EQ(counter.count, 7);
  load_state(folder(), {});  // need not be asked for
}

TEST_F(Loop, StateOfAnotherKindIsRefused) {
  Counter counter, second;
  GradScaler scaler;
  save_state(folder(), {.stateful = {&counter}});
  EXPECT_EQ(failure([&] { load_state(folder(), {.stateful = {&scaler}}); }),
            "invalid_argument: reading " + folder() +
                "/torch_state.json: the state of a Counter does not fit a GradScaler (load into "
                "the same arguments, in the same order, as it was saved from)");
  EXPECT_EQ(failure([&] {
              load_state(folder(), {.stateful = {&counter, &second}});
            }),
            "invalid_argument: " + folder() +
                "/torch_state.json holds the state of 1 Stateful objects, asked for 2");
}

TEST_F(Loop, StateThatSomebodyChangedIsRefusedAndChangesNothing) {
  torch::optim::SGD optimizer({torch::ones(1)}, 1);
  GradScaler scaler;
  LrSchedule schedule(optimizer, lr::linear(10));
  StepMeter meter;
  const Dict scale = scaler.state(), rates = schedule.state();
  const auto changed = [](Dict state, const char* name, Value value) {
    state[name] = std::move(value);
    return state;
  };
  for (const Dict& wrong :
       {Dict{}, changed(scale, "scale", -1), changed(scale, "scale", Value()),
        changed(scale, "growth_interval", 0), changed(scale, "_growth_tracker", -1),
        changed(scale, "_growth_tracker", std::int64_t{1} << 40),
        changed(scale, "skipped_steps", -1), changed(scale, "growth_factor", "two")}) {
    EXPECT_NE(failure([&] { scaler.load_state(wrong); }), "none") << to_json(wrong);
    EXPECT_EQ(scaler.state(), scale);
  }
  for (const Dict& wrong :
       {Dict{}, changed(rates, "steps", -1), changed(rates, "steps", std::int64_t{1} << 60),
        changed(rates, "base_lrs", List{}), changed(rates, "base_lrs", List{-1}),
        changed(rates, "base_lrs", List{1, 1})}) {
    EXPECT_NE(failure([&] { schedule.load_state(wrong); }), "none") << to_json(wrong);
    EXPECT_EQ(schedule.state(), rates);
  }
  EXPECT_NE(failure([&] { meter.load_state({{"time_total_s", -1}}); }), "none");
  std::ofstream(folder_ / "torch_state.json")
      << R"({"format": 2, "modules": 0, "optimizers": [], "sharded": 0, "stateful": [1]})";
  EXPECT_NE(failure([&] { load_state(folder(), {.stateful = {&scaler}}); }), "none");
}

// ---- reproducible runs

TEST_F(Loop, AReproducibleRunHasTheSameBitsOnEachRankAgain) {
  const auto numbers = [](int rank) {
    testing::fake_worker().rank = rank;
    reproducible(5);
    return torch::rand({4});
  };
  const auto first = numbers(0);

  EXPECT_TRUE(torch::equal(numbers(0), first));
  EXPECT_FALSE(torch::equal(numbers(1), first));
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  EXPECT_TRUE(at::globalContext().deterministicCuDNN());
  EXPECT_FALSE(at::globalContext().benchmarkCuDNN());
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST(Reproducible, CublasNeedsItsVariableFromTheStart) {
  EXPECT_FALSE(sdk::undetermined_cublas(false, nullptr));
  EXPECT_FALSE(sdk::undetermined_cublas(true, ":4096:8"));
  EXPECT_FALSE(sdk::undetermined_cublas(true, ":16:8"));
  EXPECT_EQ(sdk::undetermined_cublas(true, ":0:0")->describe(),
            "CUBLAS_WORKSPACE_CONFIG is ':0:0', so cuBLAS may compute other bits each time (set "
            "backend_config.deterministic: true, or CUBLAS_WORKSPACE_CONFIG=:4096:8 before the "
            "program starts)");
  EXPECT_THAT(sdk::undetermined_cublas(true, nullptr)->describe(), HasSubstr("is not set, so"));
}

// ---- accumulation

/// Batches of 1, 2, … rows, which count how many of them were read.
struct Rows {
  struct Iterator {
    using iterator_category = std::input_iterator_tag;
    using value_type = torch::Tensor;
    using difference_type = std::ptrdiff_t;
    using pointer = torch::Tensor*;
    using reference = torch::Tensor;
    torch::Tensor operator*() const { return torch::ones({at + 1, 2}); }
    Iterator& operator++() {
      ++at;
      ++*read;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return at == other.at; }
    int at = 0;
    int* read = nullptr;
  };
  Iterator begin() { return {0, &read}; }
  Iterator end() const { return {count, nullptr}; }
  int count = 0, read = 0;
};

TEST_F(Loop, AccumulationWeighsBatchesByTheirRowsAndReadsNoneAhead) {
  const auto model = prepare_model(torch::nn::Linear(2, 1));
  Rows rows{.count = 5};
  std::string seen;
  for (const auto& micro : accumulate(model, rows, 2)) {
    std::ostringstream line;
    line << micro.batch.size(0) << ":" << micro.weight << (micro.last ? " step " : " ") << rows.read
         << "; ";
    seen += line.str();
  }

  EXPECT_EQ(seen, "1:0.333333 1; 2:0.666667 step 1; 3:0.428571 3; 4:0.571429 step 3; 5:1 step 5; ");
}

TEST_F(Loop, AccumulationTakesAnyBatches) {
  const auto model = prepare_model(torch::nn::Linear(2, 1));
  const auto weights = [&](auto batches) {
    std::vector<double> found;
    for (auto& micro : accumulate(model, std::move(batches), 2)) found.push_back(micro.weight);
    return found;
  };
  using Example = torch::data::Example<>;
  std::vector<TorchBatch> columns(2);
  columns[0].row_count = columns[1].row_count = 4;
  columns[0].valid_rows = 3, columns[1].valid_rows = 1;
  EXPECT_THAT(weights(columns), ElementsAre(0.75, 0.25));
  columns[0].valid_rows = columns[1].valid_rows = 0;
  EXPECT_THAT(weights(columns), ElementsAre(0, 0));
  EXPECT_THAT(weights(std::vector<Example>{{torch::ones({3, 2}), torch::ones(3)},
                                           {torch::ones({1, 2}), torch::ones(1)}}),
              ElementsAre(0.75, 0.25));
  EXPECT_THAT(
      weights(std::vector<std::vector<Example>>{{Example{}, Example{}, Example{}}, {Example{}}}),
      ElementsAre(0.75, 0.25));
  EXPECT_THAT(weights(std::vector<torch::Tensor>{}), ElementsAre());
  EXPECT_THAT(failure([&] { accumulate(model, columns, 0); }), HasSubstr("a step of 0 batches"));
}

// ---- the fields of a report

TEST_F(Loop, AMeterWeighsLossesByRowsAndBeginsAnew) {
  StepMeter meter;
  meter.add(3, torch::tensor(2.0));
  meter.add(0, torch::tensor(std::nan("")));
  meter.add(1, torch::tensor(6.0));
  Dict first = meter.fields(), second = meter.fields();

  EXPECT_GE(first.at("time_total_s").as<double>(), first.at("time_this_iter_s").as<double>());
  for (Dict* fields : {&first, &second}) {
    EXPECT_EQ(fields->erase("time_total_s"), 1u);
    EXPECT_EQ(fields->erase("time_this_iter_s"), 1u);
  }
  EXPECT_EQ(
      first,
      (Dict{
          {"num_samples", 4}, {"batch_count", 3}, {"train_loss", 3.0}, {"last_train_loss", 6.0}}));
  EXPECT_EQ(second, (Dict{{"num_samples", 0}, {"batch_count", 0}}));
  meter.load_state({{"time_total_s", 1000}});
  EXPECT_GE(meter.fields().at("time_total_s").as<double>(), 1000);
  EXPECT_THAT(failure([&] { meter.add(1, torch::ones(2)); }), HasSubstr("as one number"));
}

}  // namespace
}  // namespace train
