// Trains a vision transformer on CIFAR-10, data parallel over the job's workers. The spec names the
// data, what is done to the pictures, and the size of the model.
//   train-run examples/cifar10_vit/job.yaml
#include <train/torch.h>
#include <train/torch_loop.h>
#include <train/train.h>

#include <chrono>

#include "vision_transformer.h"

namespace {

vit::Shape shape_of(const train::Config& config) {
  const vit::Shape tutorial;
  const auto number = [&](const char* key, std::int64_t fallback) {
    const auto value = config.get<std::int64_t>(key, fallback);
    if (value < 1 || value > 65536)
      throw train::Failure("invalid_argument", std::string(key) + " must be from 1 to 65536");
    return value;
  };
  const vit::Shape shape{.patch = number("model.patch", tutorial.patch),
                         .layers = number("model.layers", tutorial.layers),
                         .heads = number("model.heads", tutorial.heads),
                         .width = number("model.width", tutorial.width),
                         .mlp = number("model.mlp", tutorial.mlp)};
  if (shape.image % shape.patch != 0 || shape.width % shape.heads != 0) {
    throw train::Failure("invalid_argument",
                         "model.patch must divide 32, and model.heads must divide model.width");
  }
  return shape;
}

/// Return the sum of the losses of a batch's real rows. Repeated rows, which make all ranks'
/// batches alike, do not count.
torch::Tensor summed_loss(const torch::Tensor& scores, const torch::Tensor& label,
                          std::int64_t valid_rows) {
  return torch::nn::functional::cross_entropy(
      scores.narrow(0, 0, valid_rows), label.narrow(0, 0, valid_rows),
      torch::nn::functional::CrossEntropyFuncOptions().reduction(torch::kSum));
}

/// What one rank has seen of a pass.
struct Sums {
  double loss = 0, correct = 0, rows = 0;

  void add(const torch::Tensor& loss_sum, const torch::Tensor& scores, const torch::Tensor& label,
           std::int64_t valid_rows) {
    const auto right = scores.argmax(1).eq(label).narrow(0, 0, valid_rows);
    loss += loss_sum.item<double>();
    correct += right.sum().item<double>();
    rows += static_cast<double>(valid_rows);
  }
  /// Add "<prefix>loss" and "<prefix>accuracy", over the rows of all ranks. A mean of the ranks'
  /// own means would be another number where ranks have unequally many rows.
  void reduce_into(train::Dict& metrics, const std::string& prefix) const {
    const auto all =
        train::reduce({{"loss", loss}, {"correct", correct}, {"rows", rows}}, train::Reduce::Sum);
    const auto count = all.at("rows").as<double>();
    metrics[prefix + "loss"] = all.at("loss").as<double>() / count;
    metrics[prefix + "accuracy"] = all.at("correct").as<double>() / count;
  }
};

/// What matrix products compute in.
train::AutocastOptions precision_of(const train::Config& config) {
  const auto name = config.get<std::string>("precision", "float32");
  if (name != "float32" && name != "bfloat16")
    throw train::Failure("invalid_argument", "precision must be float32 or bfloat16");
  return {.dtype = torch::kBFloat16, .enabled = name == "bfloat16"};
}

/// Pictures that the spec does not normalize are bytes, and so are CIFAR-10's labels.
train::TorchBatchOptions batches_of(std::int64_t rows) {
  return {.batch_size = rows, .dtypes = {{"image", torch::kFloat32}, {"label", torch::kInt64}}};
}

using Model = train::DataParallel<vit::VisionTransformerImpl>;

Sums evaluate(Model& model, const train::TorchBatchOptions& batches,
              const train::AutocastOptions& precision) {
  const torch::NoGradGuard no_grad;
  const train::Autocast autocast(precision);
  model->eval();
  Sums sums;
  for (auto& batch : train::get_dataset_shard("valid").iter_torch_batches(batches)) {
    const auto scores = model(batch["image"]);
    sums.add(summed_loss(scores, batch["label"], batch.valid_rows), scores, batch["label"],
             batch.valid_rows);
  }
  model->train();
  return sums;
}

void train_vit(const train::Config& config) {
  torch::manual_seed(static_cast<std::uint64_t>(config.get<std::int64_t>("seed", 1)));
  auto model = train::prepare_model(vit::VisionTransformer(shape_of(config)));
  train::FusedAdamW optimizer(model->parameters(),
                              torch::optim::AdamWOptions(config.get<double>("lr", 1e-3))
                                  .weight_decay(config.get<double>("weight_decay", 1e-2)));
  if (auto checkpoint = train::get_checkpoint()) checkpoint->load(model, optimizer);

  auto pictures = train::get_dataset_shard("train");
  const int global_batch = config.get<int>("batch_size", 512);
  const auto batches = batches_of(train::per_worker_batch(global_batch));
  const auto precision = precision_of(config);
  // The model averages gradients over the ranks. Weighted in this way, each row counts alike, so
  // that a step is the same at any number of workers.
  const double weight = static_cast<double>(train::get_context().world_size()) / global_batch;
  for (int epoch = train::start_epoch(); epoch < config.get<int>("epochs", 10); ++epoch) {
    const auto begin = std::chrono::steady_clock::now();
    Sums sums;
    for (auto& batch : pictures.iter_torch_batches(batches)) {
      optimizer.zero_grad();
      const auto [scores, loss] = [&] {
        const train::Autocast autocast(precision);
        auto made = model(batch["image"]);
        auto summed = summed_loss(made, batch["label"], batch.valid_rows);
        return std::pair(std::move(made), std::move(summed));
      }();
      (loss * weight).backward();
      optimizer.step();
      sums.add(loss, scores, batch["label"], batch.valid_rows);
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    train::Dict metrics{
        {"epoch", epoch},
        {"images_per_second", static_cast<double>(pictures.total_rows()) / took.count()}};
    sums.reduce_into(metrics, "train_");
    evaluate(model, batches, precision).reduce_into(metrics, "");
    train::report(metrics, train::Checkpoint::from_state(model, optimizer));
  }
}

}  // namespace

int main(int argc, char** argv) { return train::run(argc, argv, train_vit); }
