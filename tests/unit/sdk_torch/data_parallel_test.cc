#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch.h>
#include <unistd.h>

#include <csignal>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "sdk/torch/failure.h"
#include "tests/unit/sdk_torch/fake_session.h"
#include "tests/unit/sdk_torch/ranks.h"

namespace train {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::results;
using testing::run_ranks;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    first = register_module("first", torch::nn::Linear(6, 16));
    second = register_module("second", torch::nn::Linear(16, 3));
  }
  torch::Tensor forward(torch::Tensor x) { return second(torch::relu(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};
TORCH_MODULE(Net);

// A module with two branches, of which each pass takes one.
struct ForkedImpl : torch::nn::Module {
  ForkedImpl() {
    left = register_module("left", torch::nn::Linear(4, 2));
    right = register_module("right", torch::nn::Linear(4, 2));
  }
  torch::Tensor forward(torch::Tensor x, bool take_left) { return take_left ? left(x) : right(x); }
  torch::nn::Linear left{nullptr}, right{nullptr};
};
TORCH_MODULE(Forked);

// A module that registers one layer under two names, so that LibTorch lists its parameters twice.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    inner = register_module("inner", torch::nn::Linear(6, 6));
    register_module("tied", inner);
    last = register_module("last", torch::nn::Linear(6, 3));
  }
  torch::Tensor forward(torch::Tensor x) { return last(inner(torch::relu(inner(x)))); }
  torch::nn::Linear inner{nullptr}, last{nullptr};
};
TORCH_MODULE(Tied);

void seed(int value) {
  at::set_num_threads(1);
  torch::manual_seed(static_cast<std::uint64_t>(value));
}

/// Return this rank's input for this step.
torch::Tensor input_of(int rank, int step) {
  auto generator =
      at::make_generator<at::CPUGeneratorImpl>(static_cast<std::uint64_t>(1000 * step + rank + 1));
  return torch::randn({8, 6}, generator);
}

torch::Tensor loss_of(const torch::Tensor& output) { return (output - 1).square().mean(); }

std::vector<torch::Tensor> gradients(torch::nn::Module& module) {
  std::vector<torch::Tensor> found;
  for (const auto& parameter : module.parameters()) {
    found.push_back(parameter.grad().defined() ? parameter.grad().clone()
                                               : torch::zeros_like(parameter));
  }
  return found;
}

std::string verdict(const std::vector<torch::Tensor>& found,
                    const std::vector<torch::Tensor>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!torch::allclose(found[i], expected[i], 1e-5, 1e-7)) {
      std::ostringstream text;
      text << "tensor " << i << " is off by "
           << (found[i] - expected[i]).abs().max().item<double>();
      return text.str();
    }
  }
  return "equal";
}

/// Return a digest of all bytes of the parameters and buffers.
std::string digest(torch::nn::Module& module) {
  std::uint64_t hash = 1469598103934665603ULL;  // FNV-1a
  const auto add = [&](const torch::Tensor& tensor) {
    const auto bytes = tensor.detach().contiguous();
    const auto* at = static_cast<const unsigned char*>(bytes.data_ptr());
    for (std::size_t i = 0; i < bytes.nbytes(); ++i) hash = (hash ^ at[i]) * 1099511628211ULL;
  };
  for (const auto& parameter : module.parameters()) add(parameter);
  for (const auto& buffer : module.buffers()) add(buffer);
  return std::to_string(hash);
}

/// Compute, by hand, the mean over ranks of the gradients that a bare model with the same weights
/// has for each rank's input.
template <class Model>
std::vector<torch::Tensor> mean_gradients(const Model& like, int world_size, int step) {
  std::vector<torch::Tensor> sum;
  for (int rank = 0; rank < world_size; ++rank) {
    Model bare;
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < bare->parameters().size(); ++i)
      bare->parameters()[i].copy_(like->parameters()[i]);
    {
      const torch::AutoGradMode grad(true);
      loss_of(bare(input_of(rank, step))).backward();
    }
    const auto found = gradients(*bare);
    if (sum.empty()) {
      sum = found;
    } else {
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += found[i];
    }
  }
  for (auto& tensor : sum) tensor /= world_size;
  return sum;
}

template <class Model = Net>
std::string compare_with_mean(int rank, int world_size, const DataParallelOptions& options) {
  seed(rank);
  auto model = prepare_model(Model(), options);
  std::string found;
  for (int step = 0; step < 3; ++step) {
    model->zero_grad();
    const auto expected = mean_gradients(Model(model.module()), world_size, step);
    loss_of(model->forward(input_of(rank, step))).backward();
    found += verdict(gradients(*model), expected) + " ";
  }
  return found;
}

class DataParallelWorld : public ::testing::TestWithParam<int> {};

TEST_P(DataParallelWorld, GradientsAreTheMeanOfAllRanks) {
  const int world_size = GetParam();

  const auto ends =
      run_ranks(world_size, [&](int rank) { return compare_with_mean(rank, world_size, {}); });

  EXPECT_EQ(results(ends),
            std::vector<std::string>(static_cast<std::size_t>(world_size), "equal equal equal "));
}

TEST_P(DataParallelWorld, GradientsAreTheMeanInManySmallBucketsAndWithoutViews) {
  const int world_size = GetParam();
  const DataParallelOptions small{
      .first_bucket_bytes = 64, .bucket_bytes_max = 128, .gradient_as_bucket_view = false};

  const auto ends =
      run_ranks(world_size, [&](int rank) { return compare_with_mean(rank, world_size, small); });

  EXPECT_EQ(results(ends),
            std::vector<std::string>(static_cast<std::size_t>(world_size), "equal equal equal "));
}

INSTANTIATE_TEST_SUITE_P(Worlds, DataParallelWorld, ::testing::Values(2, 3));

template <class Optimizer, class Options>
std::string train_ten_steps(int rank, Options options) {
  seed(rank);
  auto model = prepare_model(Net());
  Optimizer optimizer(model->parameters(), options);
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    loss_of(model(input_of(rank, step))).backward();
    optimizer.step();
  }
  return digest(*model);
}

TEST(DataParallel, ParametersStayBitEqualUnderSgd) {
  const auto found = results(run_ranks(3, [](int rank) {
    return train_ten_steps<torch::optim::SGD>(rank, torch::optim::SGDOptions(0.1).momentum(0.9));
  }));

  EXPECT_THAT(found[0], ::testing::MatchesRegex("[0-9]+"));
  EXPECT_THAT(found, ElementsAre(found[0], found[0], found[0]));
}

TEST(DataParallel, ParametersStayBitEqualUnderAdamW) {
  const auto found = results(run_ranks(2, [](int rank) {
    return train_ten_steps<torch::optim::AdamW>(rank, torch::optim::AdamWOptions(1e-2));
  }));

  EXPECT_THAT(found[0], ::testing::MatchesRegex("[0-9]+"));
  EXPECT_THAT(found, ElementsAre(found[0], found[0]));
}

TEST(DataParallel, TrainsAsOneProcessOnTheWholeBatch) {
  const auto ends = run_ranks(2, [](int rank) {
    seed(7);
    Net whole;
    Net part;
    torch::optim::SGD whole_optimizer(whole->parameters(), 0.1);
    auto model = prepare_model(part);
    {
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < 4; ++i) model->parameters()[i].copy_(whole->parameters()[i]);
    }
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int step = 0; step < 10; ++step) {
      whole_optimizer.zero_grad();
      loss_of(whole(torch::cat({input_of(0, step), input_of(1, step)}))).backward();
      whole_optimizer.step();
      optimizer.zero_grad();
      loss_of(model(input_of(rank, step))).backward();
      optimizer.step();
    }
    return verdict(model->parameters(), whole->parameters());
  });

  EXPECT_THAT(results(ends), ElementsAre("equal", "equal"));
}

TEST(DataParallel, StartsFromTheWeightsOfRankZero) {
  const auto found = results(run_ranks(2, [](int rank) {
    seed(rank);
    Net net;
    const std::string before = digest(*net);
    auto model = prepare_model(net);
    return before + " " + digest(*model);
  }));

  const std::string zero = found[0].substr(0, found[0].find(' '));
  EXPECT_EQ(found[0], zero + " " + zero);
  EXPECT_NE(found[1].substr(0, found[1].find(' ')), zero);
  EXPECT_EQ(found[1].substr(found[1].find(' ') + 1), zero);
}

TEST(DataParallel, RanksMayUseDifferentParametersWhereAskedTo) {
  const auto ends = run_ranks(2, [](int rank) {
    seed(1);
    auto model = prepare_model(Forked(), {.find_unused_parameters = true});
    std::string found;
    for (int step = 0; step < 3; ++step) {
      model->zero_grad();
      // The loss is the sum of the outputs for inputs of ones: each used weight's gradient is 1 on
      // its rank, and so 0.5 in the mean of both ranks.
      model->forward(torch::ones({1, 4}), /*take_left=*/rank == 0).sum().backward();
      found += verdict(gradients(*model), {torch::full({2, 4}, 0.5), torch::full({2}, 0.5),
                                           torch::full({2, 4}, 0.5), torch::full({2}, 0.5)}) +
               " ";
    }
    return found;
  });

  EXPECT_THAT(results(ends), ElementsAre("equal equal equal ", "equal equal equal "));
}

TEST(DataParallel, TiedParametersAreReducedOnce) {
  const DataParallelOptions small{.first_bucket_bytes = 64, .bucket_bytes_max = 128};

  const auto ends = run_ranks(2, [&](int rank) { return compare_with_mean<Tied>(rank, 2, small); });

  EXPECT_THAT(results(ends), ElementsAre("equal equal equal ", "equal equal equal "));
}

TEST(DataParallel, TiedParametersAreReducedOnceWhereSomeMayBeUnused) {
  const DataParallelOptions small{
      .first_bucket_bytes = 64, .bucket_bytes_max = 128, .find_unused_parameters = true};

  const auto ends = run_ranks(2, [&](int rank) { return compare_with_mean<Tied>(rank, 2, small); });

  EXPECT_THAT(results(ends), ElementsAre("equal equal equal ", "equal equal equal "));
}

TEST(DataParallel, NamesParametersWithoutGradient) {
  const auto ends = run_ranks(2, [](int) {
    seed(1);
    auto model = prepare_model(Forked());
    model->forward(torch::ones({1, 4}), /*take_left=*/true).sum().backward();
    return std::string("no error");
  });

  for (const auto& end : ends) {
    EXPECT_EQ(end.exit_code, 1);
    EXPECT_EQ(
        end.result,
        "error: 2 of 4 parameters got no gradient in a backward pass: \"right.weight\", "
        "\"right.bias\" (prepare the "
        "model with {.find_unused_parameters = true}, or freeze them with requires_grad_(false))");
  }
}

TEST(DataParallel, AccumulatesWithoutTalkingUnderNoSync) {
  const auto ends = run_ranks(2, [](int rank) {
    seed(rank);
    auto model = prepare_model(Net());
    std::string found;
    for (int round = 0; round < 2; ++round) {
      model->zero_grad();
      auto expected = mean_gradients(Net(model.module()), 2, 2 * round);
      const auto last = mean_gradients(Net(model.module()), 2, 2 * round + 1);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += last[i];
      {
        const auto guard = model.no_sync();
        loss_of(model(input_of(rank, 2 * round))).backward();
      }
      loss_of(model(input_of(rank, 2 * round + 1))).backward();
      found += verdict(gradients(*model), expected) + " ";
    }
    return found;
  });

  EXPECT_THAT(results(ends), ElementsAre("equal equal ", "equal equal "));
}

TEST(DataParallel, BuffersFollowRankZero) {
  const auto found = results(run_ranks(2, [](int rank) {
    seed(rank);
    auto model =
        prepare_model(torch::nn::Sequential(torch::nn::Linear(6, 4), torch::nn::BatchNorm1d(4)));
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int step = 0; step < 3; ++step) {
      optimizer.zero_grad();
      model->forward(input_of(rank, step)).square().mean().backward();
      optimizer.step();
    }
    return digest(*model);
  }));

  EXPECT_THAT(found[0], ::testing::MatchesRegex("[0-9]+"));
  EXPECT_THAT(found, ElementsAre(found[0], found[0]));
}

TEST(DataParallel, LeavesTorchAutogradGradAlone) {
  const auto ends = run_ranks(2, [](int rank) {
    seed(1);
    auto model = prepare_model(Net());
    const auto given =
        torch::autograd::grad({loss_of(model(input_of(rank, 0)))}, model->parameters());
    const bool untouched = !model->parameters()[0].grad().defined();
    const auto expected = mean_gradients(Net(model.module()), 2, 1);
    loss_of(model(input_of(rank, 1))).backward();
    return std::to_string(given.size()) + (untouched ? " untouched " : " touched ") +
           verdict(gradients(*model), expected);
  });

  EXPECT_THAT(results(ends), ElementsAre("4 untouched equal", "4 untouched equal"));
}

TEST(DataParallel, RefusesModelsThatDiffer) {
  const auto ends = run_ranks(2, [](int rank) {
    seed(1);
    prepare_model(torch::nn::Linear(4, rank == 0 ? 2 : 3));
    return std::string("no error");
  });

  EXPECT_THAT(ends[1].result,
              AllOf(HasSubstr("error: prepare_model: comparing the parameters of the ranks"),
                    HasSubstr("(build the same model on every rank)")));
}

TEST(DataParallel, RefusesAModelWithNothingToTrain) {
  const auto ends = run_ranks(2, [](int) {
    prepare_model(torch::nn::Sequential(torch::nn::ReLU()));
    return std::string("no error");
  });

  for (const auto& end : ends) {
    EXPECT_EQ(end.result,
              "error: prepare_model: no parameter of the model needs a gradient (use the module as "
              "it is, or set "
              "requires_grad_(true))");
  }
}

TEST(DataParallel, ThrowsWhenItsHolderIsGone) {
  const auto ends = run_ranks(2, [](int rank) {
    seed(1);
    Net net;
    prepare_model(net);
    loss_of(net(input_of(rank, 0))).backward();
    return std::string("no error");
  });

  for (const auto& end : ends) {
    EXPECT_EQ(end.result,
              "error: a backward pass of a module whose train::DataParallel was destroyed: the "
              "ranks would diverge (keep what "
              "train::prepare_model returned for as long as you train)");
  }
}

void train_first_layer(const Net& net, bool train) {
  for (auto& parameter : net->first->parameters()) parameter.requires_grad_(train);
}

/// Do three passes, and compare the gradients of each with the mean of both ranks.
std::string compare_passes(const DataParallel<NetImpl>& model, int rank) {
  std::string found;
  for (int step = 0; step < 3; ++step) {
    model->zero_grad();
    const auto expected = mean_gradients(Net(model.module()), 2, step);
    loss_of(model(input_of(rank, step))).backward();
    found += verdict(gradients(*model), expected) + " ";
  }
  return found;
}

TEST(DataParallel, AModuleMayBePreparedAgainWithMoreToTrain) {
  const auto ends = run_ranks(2, [](int rank) {
    seed(rank);
    Net net;
    train_first_layer(net, false);
    {
      auto model = prepare_model(net);
      loss_of(model(input_of(rank, 0))).backward();
    }
    train_first_layer(net, true);
    const auto again = prepare_model(net);
    return compare_passes(again, rank);
  });

  EXPECT_THAT(results(ends), ElementsAre("equal equal equal ", "equal equal equal "));
}

TEST(DataParallel, TheOneThatIsPreparedLastReplacesTheOthers) {
  const auto ends = run_ranks(2, [](int rank) {
    seed(rank);
    Net net;
    train_first_layer(net, false);
    const auto first = prepare_model(net);
    loss_of(first(input_of(rank, 0))).backward();
    train_first_layer(net, true);
    const auto last = prepare_model(net);
    return compare_passes(last, rank);
  });

  EXPECT_THAT(results(ends), ElementsAre("equal equal equal ", "equal equal equal "));
}

TEST(DataParallel, ThrowsForAParameterThatOnlyAReplacedOneTrained) {
  const auto ends = run_ranks(2, [](int rank) {
    seed(1);
    Net net;
    const auto first = prepare_model(net);
    train_first_layer(net, false);
    const auto last = prepare_model(net);
    train_first_layer(net, true);
    loss_of(last(input_of(rank, 0))).backward();
    return std::string("no error");
  });

  for (const auto& end : ends)
    EXPECT_THAT(end.result, HasSubstr("newest train::prepare_model of its module did not prepare"));
}

TEST(DataParallel, AKilledPeerFailsTheOthersAtOnce) {
  const auto ends = run_ranks(3, [](int rank) {
    seed(1);
    auto model = prepare_model(Net());
    loss_of(model(input_of(rank, 0))).backward();
    if (rank == 2) ::kill(::getpid(), SIGKILL);
    for (int step = 1; step < 100; ++step) loss_of(model(input_of(rank, step))).backward();
    return std::string("no error");
  });

  EXPECT_EQ(ends[2].signal, SIGKILL);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(ends[static_cast<std::size_t>(rank)].exit_code, 1);
    EXPECT_THAT(ends[static_cast<std::size_t>(rank)].result,
                ::testing::AnyOf(HasSubstr("Connection closed by peer"),
                                 HasSubstr("Connection reset by peer"), HasSubstr("Broken pipe")));
  }
}

TEST(ProcessGroup, IsOneForAllCallers) {
  const auto ends = run_ranks(2, [](int rank) {
    const auto group = process_group();
    std::vector<torch::Tensor> one{torch::full({1}, rank + 1.0)};
    group->allreduce(one)->wait();
    return std::to_string(group->getRank()) + "/" + std::to_string(group->getSize()) + " " +
           std::to_string(one[0].item<double>()) +
           (group == process_group() ? " same" : " another");
  });

  EXPECT_THAT(results(ends), ElementsAre("0/2 3.000000 same", "1/2 3.000000 same"));
}

TEST(ProcessGroup, NamesTheRankAndTheStoreWhenAPeerNeverComes) {
  const auto ends = run_ranks(2, [](int rank) {
    if (rank == 0) return std::string("left");
    testing::fake_worker().collective_timeout = std::chrono::milliseconds(300);
    process_group();
    return std::string("no error");
  });

  EXPECT_THAT(
      ends[1].result,
      AllOf(HasSubstr("error: joining the process group of 2 ranks as rank 1 at 127.0.0.1:"),
            HasSubstr("connecting to rank 0's store at 127.0.0.1:"),
            HasSubstr(" for 300 ms: Connection refused")));
}

TEST(ProcessGroup, AWorldOfOneNeedsNone) {
  const auto ends = run_ranks(1, [](int) {
    seed(1);
    auto model = prepare_model(Net());
    loss_of(model(input_of(0, 0))).backward();
    const auto guard = model.no_sync();
    return std::string(process_group() ? "a group" : "no group") + " " + device().str();
  });

  EXPECT_THAT(results(ends), ElementsAre("no group cpu"));
}

TEST(TorchErrors, OneOfNcclAboutASharedGpuSaysWhatToDo) {
  const Error error = sdk::classify_torch_error(
      "NCCL error in: NCCLUtils.cpp:94, invalid usage\nncclInvalidUsage: This usually reflects "
      "invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 0 and rank 1 "
      "both on CUDA device 1000");

  EXPECT_EQ(error.code, Errc::InvalidArgument);
  EXPECT_THAT(error.hint, HasSubstr("let each worker claim a GPU"));
}

TEST(ProcessGroup, RefusesNcclWithoutAGpu) {
  const auto ends = run_ranks(2, [](int) {
    testing::fake_worker().collectives = "nccl";
    process_group();
    return std::string("no error");
  });

  for (const auto& end : ends) {
    EXPECT_THAT(end.result,
                HasSubstr("backend_config.collectives is nccl, but this worker sees no GPU (set "
                          "scaling_config.use_gpu: true, or collectives: gloo)"));
  }
}

}  // namespace
}  // namespace train
