// Trains a small CNN on MNIST digits, data parallel over the job's workers: a complete training
// loop with the SDK.
//   train-run examples/mnist_ddp/job.yaml
#include <train/torch.h>
#include <train/train.h>

#include <cmath>

namespace {

struct DigitNetImpl : torch::nn::Module {
  DigitNetImpl() {
    using torch::nn::Conv2dOptions;
    first = register_module("first", torch::nn::Conv2d(Conv2dOptions(1, 16, 3).padding(1)));
    second = register_module("second", torch::nn::Conv2d(Conv2dOptions(16, 32, 3).padding(1)));
    head = register_module("head", torch::nn::Linear(32 * 7 * 7, 10));
  }

  /// [batch, 1, 28, 28] → [batch, 10], the score of each digit
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(first(x)), 2);
    x = torch::max_pool2d(torch::relu(second(x)), 2);
    return head(x.flatten(1));
  }

  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(DigitNet);

/// [rows, 784] uint8 → [rows, 1, 28, 28] with MNIST's mean 0 and deviation 1
torch::Tensor pixels(const torch::Tensor& image) {
  return image.to(torch::kFloat32).div_(255).sub_(0.1307).div_(0.3081).view({-1, 1, 28, 28});
}

/// Return the sum of the losses of a batch's real rows. Repeated rows, which make all ranks'
/// batches alike, do not count.
torch::Tensor summed_loss(const torch::Tensor& scores, const torch::Tensor& label,
                          std::int64_t valid_rows) {
  return torch::nn::functional::cross_entropy(
      scores.narrow(0, 0, valid_rows), label.narrow(0, 0, valid_rows),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

/// Return the mean loss and accuracy over the held-out rows of all ranks: sum first, and divide
/// once at the end.
train::Dict evaluate(train::DataParallel<DigitNetImpl>& model) {
  const torch::NoGradGuard no_grad;
  model->eval();
  double loss = 0, correct = 0, rows = 0;
  for (auto& batch : train::get_dataset_shard("valid").iter_torch_batches({.batch_size = 250})) {
    const auto scores = model(pixels(batch["image"]));
    const auto right = scores.argmax(1).eq(batch["label"]).narrow(0, 0, batch.valid_rows);
    loss += summed_loss(scores, batch["label"], batch.valid_rows).item<double>();
    correct += right.sum().item<double>();
    rows += static_cast<double>(batch.valid_rows);
  }
  model->train();
  const auto all =
      train::reduce({{"loss", loss}, {"correct", correct}, {"rows", rows}}, train::Reduce::Sum);
  const auto count = all.at("rows").as<double>();
  return {{"val_loss", all.at("loss").as<double>() / count},
          {"accuracy", all.at("correct").as<double>() / count}};
}

/// Halve the rate in each epoch, so that the last one settles.
void set_rate(torch::optim::Optimizer& optimizer, double first, int epoch) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(first * std::pow(0.5, epoch));
}

void train_digits(const train::Config& config) {
  torch::manual_seed(static_cast<std::uint64_t>(config.get<int>("seed", 1)));
  auto model = train::prepare_model(DigitNet());
  const auto rate = config.get<double>("lr", 3e-3);
  torch::optim::AdamW optimizer(model->parameters(), rate);
  if (auto checkpoint = train::get_checkpoint()) checkpoint->load(model, optimizer);

  auto digits = train::get_dataset_shard("train");
  const int global_batch = config.get<int>("batch_size", 64);
  const train::BatchOptions batches{.batch_size = train::per_worker_batch(global_batch)};
  // The model averages gradients over the ranks, whose batches may differ by a row. Weighted in
  // this way, each row counts alike, and a step is the same at any number of workers.
  const double weight = static_cast<double>(train::get_context().world_size()) / global_batch;
  for (int epoch = train::start_epoch(); epoch < config.get<int>("epochs", 4); ++epoch) {
    set_rate(optimizer, rate, epoch);
    double loss_sum = 0, rows = 0;
    for (auto& batch : digits.iter_torch_batches(batches)) {
      optimizer.zero_grad();
      const auto loss =
          summed_loss(model(pixels(batch["image"])), batch["label"], batch.valid_rows);
      (loss * weight).backward();
      optimizer.step();
      loss_sum += loss.item<double>();
      rows += static_cast<double>(batch.valid_rows);
    }
    auto metrics = evaluate(model);
    metrics["epoch"] = epoch;
    const auto all = train::reduce({{"loss", loss_sum}, {"rows", rows}}, train::Reduce::Sum);
    metrics["loss"] = all.at("loss").as<double>() / all.at("rows").as<double>();
    train::report(metrics, train::Checkpoint::from_state(model, optimizer));
  }
}

}  // namespace

int main(int argc, char** argv) { return train::run(argc, argv, train_digits); }
