#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lib/storage/manifest.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/staged_files.h"
#include "sdk/torch/tensor_file.h"
#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/fused_steps.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::failure;
using ::testing::HasSubstr;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int width = 4) {
    linear = register_module("linear", torch::nn::Linear(3, width));
    norm = register_module("norm", torch::nn::BatchNorm1d(width));
  }
  torch::Tensor forward(torch::Tensor x) { return norm(linear(x)); }
  torch::nn::Linear linear{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

class State : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/train-state-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    testing::fake_worker() = {};
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string folder() const { return folder_.string(); }
  std::string bytes_of(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder_).string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  fs::path folder_;
};

void train_steps(Net& net, torch::optim::Optimizer& optimizer, int steps) {
  for (int i = 0; i < steps; ++i) {
    optimizer.zero_grad();
    net(torch::randn({8, 3})).square().mean().backward();
    optimizer.step();
  }
}

bool same(torch::nn::Module& a, torch::nn::Module& b) {
  const auto left = a.named_parameters(), right = b.named_parameters();
  for (const auto& item : left) {
    if (!torch::equal(item.value(), right[item.key()])) return false;
  }
  const auto left_buffers = a.named_buffers(), right_buffers = b.named_buffers();
  for (const auto& item : left_buffers) {
    if (!torch::equal(item.value(), right_buffers[item.key()])) return false;
  }
  return true;
}

TEST_F(State, TrainingGoesOnAsIfItHadNeverStopped) {
  torch::manual_seed(1);
  Net net;
  torch::optim::AdamW optimizer(net->parameters(),
                                torch::optim::AdamWOptions(1e-2).weight_decay(0.1));
  train_steps(net, optimizer, 3);
  save_state(folder(), {.modules = {net.get()}, .optimizers = {&optimizer}, .epoch = 6});
  train_steps(net, optimizer, 3);

  torch::manual_seed(99);
  Net other;
  torch::optim::AdamW other_optimizer(other->parameters(), torch::optim::AdamWOptions(1e-3));
  const LoadedState loaded =
      load_state(folder(), {.modules = {other.get()}, .optimizers = {&other_optimizer}});
  train_steps(other, other_optimizer,
              3);  // with the saved learning rate, moments and random numbers

  EXPECT_TRUE(same(*net, *other));
  EXPECT_EQ(loaded.epoch, 6);
  EXPECT_TRUE(loaded.rng_restored);
  EXPECT_THAT(files(), ElementsAre("model.safetensors", "optimizer.safetensors",
                                   "rank-0000/rng.safetensors", "torch_state.json"));
}

TEST_F(State, ALayerUnderTwoNamesIsLoadedBack) {
  torch::nn::Linear layer(3, 3);
  torch::nn::Sequential tied(layer, layer);
  torch::optim::AdamW optimizer(layer->parameters());
  tied->forward(torch::randn({8, 3})).square().mean().backward();
  optimizer.step();
  const auto before = layer->weight.detach().clone();
  save_state(folder(), {.modules = {tied.ptr().get()}, .optimizers = {&optimizer}});
  {
    const torch::NoGradGuard no_grad;
    layer->weight.zero_();
  }

  load_state(folder(), {.modules = {tied.ptr().get()}, .optimizers = {&optimizer}});

  EXPECT_TRUE(torch::equal(layer->weight, before));
}

TEST_F(State, StagingTakesItsCopyAtOnce) {
  Net net;
  const auto before = net->linear->weight.detach().clone();

  const auto write = detail::stage_state({.modules = {net.get()}});
  {
    const torch::NoGradGuard no_grad;
    net->linear->weight.zero_();
  }
  write(folder());

  load_state(folder(), {.modules = {net.get()}});
  EXPECT_TRUE(torch::equal(net->linear->weight, before));
}

TEST_F(State, ALazilyNegatedTensorIsSavedNegated) {
  torch::Tensor negated = torch::imag(torch::complex(torch::ones({3}), torch::ones({3})).conj());
  ASSERT_TRUE(negated.is_neg());
  ShardedState saved;
  saved.replicated("imaginary", negated);
  save_state(folder(), {.sharded = {&saved}});

  torch::Tensor loaded = torch::zeros({3});
  ShardedState state;
  state.replicated("imaginary", loaded);
  load_state(folder(), {.sharded = {&state}});

  EXPECT_TRUE(torch::equal(loaded, torch::full({3}, -1.0)));
}

TEST_F(State, FilesAreDigestedAsTheyAreWritten) {
  torch::nn::Linear net(300, 1000);  // several pieces
  torch::optim::SGD optimizer(net->parameters(), 0.1);

  detail::stage_state({.modules = {net.get()}, .optimizers = {&optimizer}})(folder());

  PosixFileSystem disk;
  const auto staged = staged_files(disk, folder());
  ASSERT_TRUE(staged);
  EXPECT_EQ(staged->size(), 4U);
  for (const StagedFile& file : *staged) EXPECT_EQ(file.digest, digest_of(bytes_of(file.path)));
}

TEST_F(State, ASamplerGoesOnAtAnyNumberOfRanks) {
  DistributedSampler first(12, {.seed = 3}, 2, 0), second(12, {.seed = 3}, 3, 1);
  first.reset();
  first.next(3);
  const auto write = detail::stage_state(detail::state_of(first));
  first.next(1);  // after the copy was taken

  write(folder());
  load_state(folder(), detail::state_of(second));

  EXPECT_EQ(second.state(), (SamplerState{.epoch = 0, .rows_done = 6, .rows = 12, .seed = 3}));
}

TEST_F(State, ASamplersSeedMayBeAnyOf64Bits) {
  constexpr std::uint64_t kSeed = 0x9E3779B97F4A7C15;
  DistributedSampler first(12, {.seed = kSeed}, 1, 0), second(12, {.seed = kSeed}, 1, 0);
  first.next(3);

  save_state(folder(), {.samplers = {&first}});
  load_state(folder(), {.samplers = {&second}});

  EXPECT_EQ(second.state().seed, kSeed);
  EXPECT_EQ(second.state().rows_done, 3u);
}

TEST_F(State, SaysWhatIsWrongWithThePlaceOfASampler) {
  DistributedSampler sampler(12, {.seed = 3}, 2, 0), other(12, {.seed = 4}, 2, 0);
  const auto loading = [&](DistributedSampler& into) {
    return failure([&] { load_state(folder(), {.samplers = {&into}}); });
  };
  const std::string path = folder() + "/torch_state.json";
  const auto write = [&](const std::string& more) {
    std::ofstream(path) << R"({"format": 2, "modules": 0, "optimizers": [])" << more << "}";
  };
  save_state(folder(), {.samplers = {&sampler}});
  EXPECT_THAT(loading(other), HasSubstr("this one has 12 rows, shuffled with seed 4"));

  write("");
  EXPECT_EQ(loading(sampler),
            "invalid_argument: " + path + " holds the places of 0 samplers, asked for 1");
  write(R"(, "samplers": [{"epoch": 0}])");
  EXPECT_THAT(loading(sampler), HasSubstr("corrupt: reading " + path + ": the place of a sampler"));
  write(R"(, "samplers": 3)");
  EXPECT_THAT(loading(sampler), HasSubstr("corrupt: " + path));
}

TEST_F(State, RanksButTheFirstWriteTheirRandomNumbersOnly) {
  testing::fake_worker().rank = 3;
  testing::fake_worker().world_size = 4;
  Net net;

  detail::stage_state({.modules = {net.get()}})(folder());

  EXPECT_THAT(files(), ElementsAre(".trainrun-digests", "rank-0003/rng.safetensors"));
}

TEST_F(State, ARankWithoutAPartKeepsItsOwnRandomNumbers) {
  Net net;
  save_state(folder(), {.modules = {net.get()}});
  testing::fake_worker().rank = 1;

  EXPECT_FALSE(load_state(folder(), {.modules = {net.get()}}).rng_restored);
}

TEST_F(State, ARandomNumberBehindTheTableIsRefused) {
  torch::randn({3});
  save_state(folder(), {});
  const std::string path = folder() + "/rank-0000/rng.safetensors";
  const auto saved = sdk::read_tensor_file(sdk::FileScan(path));
  torch::Tensor state = saved.tensors.at("cpu").clone();
  state[16] = 100;  // index of the next number, of 624
  state[8] = 112;   // number of numbers: 624
  state[9] = 2;
  const sdk::StagedFile damaged = sdk::stage_tensors({{"cpu", state}}, {});
  std::ofstream(path, std::ios::binary)
      << damaged.header
      << std::string_view(reinterpret_cast<const char*>(damaged.data.data_ptr<std::uint8_t>()),
                          static_cast<std::size_t>(damaged.data.numel()));

  EXPECT_EQ(failure([&] { load_state(folder(), {}); }),
            "corrupt: restoring " + path + ": \"cpu\" is not a generator state");
}

TEST_F(State, WritesTheBytesThatOtherReadersExpect) {
  torch::nn::Linear linear(2, 1);
  const torch::NoGradGuard no_grad;
  linear->weight.copy_(torch::tensor({{1.0F, -2.0F}}));
  linear->bias.copy_(torch::tensor({0.5F}));

  save_state(folder(), {.modules = {linear.get()}});

  const std::string json =
      R"({"__metadata__":{"format":"pt"},"bias":{"data_offsets":[8,12],"dtype":"F32","shape":[1]},)"
      R"("weight":{"data_offsets":[0,8],"dtype":"F32","shape":[1,2]}})";
  const std::string padded = json + std::string((8 - json.size() % 8) % 8, ' ');
  const std::string data("\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x00\x3f", 12);
  EXPECT_EQ(bytes_of("model.safetensors"), std::string(1, static_cast<char>(padded.size())) +
                                               std::string(7, '\0') + padded + data);
}

TEST_F(State, NamesAllThatDoesNotFitTheModel) {
  Net net;
  save_state(folder(), {.modules = {net.get()}});
  torch::nn::Sequential other;
  other->push_back("linear", torch::nn::Linear(3, 5));
  other->push_back("extra", torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)));

  EXPECT_EQ(
      failure([&] { load_state(folder(), {.modules = {other.get()}}); }),
      "invalid_argument: " + folder() +
          "/model.safetensors does not fit the model: \"linear.weight\" is Float [4, 3] there, "
          "Float [5, 3] in the "
          "model; \"linear.bias\" is Float [4] there, Float [5] in the model; missing "
          "\"extra.weight\"; unexpected "
          "\"norm.bias\"; unexpected \"norm.num_batches_tracked\"; unexpected "
          "\"norm.running_mean\"; unexpected "
          "\"norm.running_var\"; unexpected \"norm.weight\" (build the model that was saved)");
}

TEST_F(State, RefusesTheStateOfAnotherOptimizer) {
  torch::nn::Linear linear(2, 1);
  torch::optim::SGD sgd(linear->parameters(), 0.1);
  save_state(folder(), {.modules = {linear.get()}, .optimizers = {&sgd}});
  torch::optim::AdamW adamw(linear->parameters());

  EXPECT_EQ(
      failure([&] { load_state(folder(), {.modules = {linear.get()}, .optimizers = {&adamw}}); }),
      "invalid_argument: " + folder() +
          R"(/optimizer.safetensors does not fit the optimizer: it was saved as {"parameters":[[[1,2],[1]]],"type":"torch::optim::SGD"}, )"
          R"(and this one is {"parameters":[[[1,2],[1]]],"type":"torch::optim::AdamW"} )"
          "(make the optimizer over the same parameters in the same groups)");
}

TEST_F(State, SaysWhatAnEmptyFolderLacks) {
  Net net;

  EXPECT_EQ(failure([&] { load_state(folder(), {.modules = {net.get()}}); }),
            "not_found: " + folder() +
                "/torch_state.json is missing: the folder holds no state of train::save_state or "
                "from_state");
}

TEST_F(State, RefusesATornFile) {
  Net net;
  save_state(folder(), {.modules = {net.get()}});
  fs::resize_file(folder_ / "model.safetensors", fs::file_size(folder_ / "model.safetensors") - 1);

  EXPECT_THAT(
      failure([&] { load_state(folder(), {.modules = {net.get()}}); }),
      HasSubstr("corrupt: " + folder() + "/model.safetensors: safetensors header: it describes "));
}

TEST_F(State, ACheckpointsModelAndOptimizerAreVerifiedWhileTheyAreRead) {
  Net net;
  torch::optim::AdamW optimizer(net->parameters());
  train_steps(net, optimizer, 1);
  save_state(folder(), {.modules = {net.get()}, .optimizers = {&optimizer}});
  std::vector<ManifestFile> manifest;
  for (const std::string& name : files()) {
    const std::string bytes = bytes_of(name);
    manifest.push_back({name, bytes.size(), digest_of(bytes), {Rank{0}}});
  }
  const sdk::CheckedFiles checkpoint(folder(), manifest);
  Net other;
  torch::optim::AdamW other_optimizer(other->parameters());
  const StateRefs refs{.modules = {other.get()}, .optimizers = {&other_optimizer}};

  detail::load_checked(checkpoint, refs);

  EXPECT_TRUE(same(*net, *other));
  for (const std::string& name : files()) {
    const std::string whole = bytes_of(name);
    std::string damaged = whole;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 4);
    std::ofstream(folder_ / name, std::ios::binary) << damaged;
    EXPECT_THAT(failure([&] { detail::load_checked(checkpoint, refs); }),
                ::testing::StartsWith("corrupt: "))
        << name;
    std::ofstream(folder_ / name, std::ios::binary) << whole;
  }
}

TEST_F(State, FailsWhereItCannotWrite) {
  Net net;
  std::ofstream(folder_ / "file") << "no folder";

  EXPECT_THAT(failure([&] { save_state(folder() + "/file/inside", {.modules = {net.get()}}); }),
              HasSubstr("file"));
}

TEST_F(State, SavesTwoModelsAndViewsOfAnyLayout) {
  torch::nn::Linear one(3, 2), two(2, 2);
  one->weight.set_data(torch::arange(6, torch::kFloat).reshape({3, 2}).t());  // not contiguous
  save_state(folder(), {.modules = {one.get(), two.get()}});

  torch::nn::Linear again(3, 2), again_two(2, 2);
  load_state(folder(), {.modules = {again.get(), again_two.get()}});

  EXPECT_TRUE(same(*one, *again));
  EXPECT_TRUE(same(*two, *again_two));
}

TEST_F(State, FusedAdamWMakesTheStepsOfAdamWAndLoadsItsState) {
  const auto steps = [](torch::nn::Linear& linear, torch::optim::Optimizer& optimizer, int count) {
    for (int i = 0; i < count; ++i) {
      optimizer.zero_grad();
      (linear(torch::randn({8, 3})) - 1).square().mean().backward();
      optimizer.step();
    }
  };
  torch::manual_seed(1);
  torch::nn::Linear linear(3, 4), fused_linear(3, 4);
  const auto options = torch::optim::AdamWOptions(1e-2).weight_decay(0.1).amsgrad(true);
  torch::optim::AdamW optimizer(linear->parameters(), options);
  steps(linear, optimizer, 2);
  save_state(folder(), {.modules = {linear.get()}, .optimizers = {&optimizer}});
  FusedAdamW fused(fused_linear->parameters(), options);
  load_state(folder(), {.modules = {fused_linear.get()}, .optimizers = {&fused}});

  torch::manual_seed(2);
  steps(linear, optimizer, 5);
  torch::manual_seed(2);
  steps(fused_linear, fused, 5);

  EXPECT_TRUE(torch::allclose(linear->weight, fused_linear->weight, 1e-5, 1e-6));
  EXPECT_TRUE(torch::allclose(linear->bias, fused_linear->bias, 1e-5, 1e-6));
}

TEST_F(State, FusedAdamWStepsParametersOfSeveralTypes) {
  EXPECT_TRUE(testing::fused_steps_equal_plain({torch::kFloat32, torch::kFloat64}, 1e-5));
}

TEST(TensorFile, RefusesTypesThatTheFormatLacks) {
  EXPECT_EQ(failure([] {
              sdk::stage_tensors({{"z", torch::zeros({1}, torch::kComplexFloat)}}, {});
            }),
            "invalid_argument: tensor \"z\" is ComplexFloat, which safetensors has no name for");
}

std::string output_of(const std::string& command) {
  std::string output;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return output;
  char buffer[4096];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    output.append(buffer, got);
  ::pclose(pipe);
  return output;
}

TEST_F(State, PythonsSafetensorsReadsIt) {
  const std::string python = TRAIN_DEPS_DIR "/tools-venv-5/bin/python";
  if (!fs::exists(python))
    GTEST_SKIP() << python << " is missing: run packaging/deps/install.sh test";
  torch::nn::Linear linear(2, 2);
  const ShardedState sharded =
      ShardedState().split("table", torch::tensor({1.5, 2.5}, torch::kFloat64), 0, 2);
  {
    const torch::NoGradGuard no_grad;
    linear->weight.copy_(torch::tensor({{1.0, 2.0}, {3.0, -4.0}}));
    linear->bias.fill_(0.5);
  }
  save_state(folder(), {.modules = {linear.get()}, .sharded = {&sharded}});

  EXPECT_EQ(
      output_of(python + " " TRAIN_SOURCE_DIR "/tests/unit/sdk_torch/read_safetensors.py " +
                folder() + "/model.safetensors " + folder() + "/rank-0000/sharded.safetensors"),
      "bias float32 [2] 0.5 0.5\n"
      "weight float32 [2, 2] 1 2 3 -4\n"
      "table float64 [2] 1.5 2.5\n");
}

}  // namespace
}  // namespace train
