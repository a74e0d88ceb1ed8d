// A program that steers its own training: it starts the workers, looks at the accuracy after each
// pass over the data, and decides whether to go on, to lower the learning rate, or to stop.
//   build/bin/examples/driver build/data/mnist
#include <train/torch_operator.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

namespace {

// ---- what each worker does

struct DigitNetImpl : torch::nn::Module {
  DigitNetImpl() {
    hidden = register_module("hidden", torch::nn::Linear(784, 128));
    head = register_module("head", torch::nn::Linear(128, 10));
  }
  /// [rows, 784] → [rows, 10], the score of each digit
  torch::Tensor forward(const torch::Tensor& pixels) { return head(torch::relu(hidden(pixels))); }
  torch::nn::Linear hidden{nullptr}, head{nullptr};
};
TORCH_MODULE(DigitNet);

/// Batches of a dataset of the spec are a type of their own, so their functions are, too.
class Digits final : public train::TrainingOperator<train::TorchBatch> {
 public:
  void setup(const train::Config& config) override {
    torch::manual_seed(1);
    model_ = register_model(DigitNet()).ptr();
    optimizer_ = &register_optimizer<torch::optim::SGD>(
        model_->parameters(), torch::optim::SGDOptions(config.get<double>("lr")).momentum(0.9));
    // Lowers the rate when update_scheduler(metric) has seen no better metric twice.
    register_schedule(*optimizer_, {.maximize = true, .factor = 0.3, .patience = 1});
    const train::TorchBatchOptions batches{.batch_size = train::per_worker_batch(64)};
    register_data(
        [batches] { return train::get_dataset_shard("train").iter_torch_batches(batches); },
        [batches] { return train::get_dataset_shard("valid").iter_torch_batches(batches); });
  }

  train::Dict train_batch(train::TorchBatch& batch, const train::BatchInfo&) override {
    const auto loss = loss_of(batch, scores(batch));
    optimizer_->zero_grad();
    loss.backward();
    optimizer_->step();
    return {{"train_loss", loss.item<double>()}, {"num_samples", batch.valid_rows}};
  }

  train::Dict validate_batch(train::TorchBatch& batch, const train::BatchInfo&) override {
    const auto found = scores(batch);
    const auto right = found.argmax(1).eq(real(batch, batch["label"])).to(torch::kFloat64);
    return {{"val_loss", loss_of(batch, found).item<double>()},
            {"val_accuracy", right.mean().item<double>()},
            {"num_samples", batch.valid_rows}};
  }

 private:
  /// Leave out the rows that only make all ranks' batches alike.
  static torch::Tensor real(const train::TorchBatch& batch, const torch::Tensor& rows) {
    return rows.narrow(0, 0, batch.valid_rows);
  }
  torch::Tensor scores(train::TorchBatch& batch) {
    return model_->forward(real(batch, batch["image"]).to(torch::kFloat32).div_(255));
  }
  static torch::Tensor loss_of(train::TorchBatch& batch, const torch::Tensor& scores) {
    return torch::nn::functional::cross_entropy(scores, real(batch, batch["label"]));
  }

  std::shared_ptr<DigitNetImpl> model_;
  torch::optim::SGD* optimizer_ = nullptr;
};

// ---- the driver

train::Dict parquet(const std::string& path) { return {{"format", "parquet"}, {"path", path}}; }

train::Dict spec_of(const std::string& data) {
  train::Dict spec{{"scaling_config.num_workers", 2},
                   {"env", train::Dict{{"OMP_NUM_THREADS", "1"}}},
                   {"train_loop_config.lr", 0.1},
                   {"datasets.train", parquet(data + "/train.parquet")},
                   {"datasets.train.shuffle", train::Dict{{"seed", 1}}},
                   {"datasets.valid", parquet(data + "/valid.parquet")},
                   {"dataset_config.valid.split", true}};
  if (const char* runs = std::getenv("RUNS")) {  // else below ~, by a name with the time
    spec["run_config.storage_path"] = runs;
    spec["run_config.name"] = "steered";
  }
  return spec;
}

void steer(train::OperatorTrainer& trainer, double enough) {
  double accuracy = 0;
  for (int pass = 1; pass <= 20 && accuracy < enough; ++pass) {
    const auto trained = trainer.train();
    accuracy = trainer.validate().at("val_accuracy").as<double>();
    const double rate = trainer.update_scheduler(accuracy)[0];
    std::printf("pass %d: loss %.3f, accuracy %.3f, next rate %g\n", pass,
                trained.at("train_loss").as<double>(), accuracy, rate);
    std::fflush(stdout);
  }
  const auto best = trainer.get_model();
  std::printf("accuracy %.3f; the model is %s/model.safetensors\n", accuracy,
              best.as_directory().c_str());
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string data = argc > 1 ? argv[1] : "build/data/mnist";
  const double enough = argc > 2 ? std::atof(argv[2]) : 0.95;
  auto trainer = train::operate<Digits>(argc, argv, spec_of(data));  // workers never return
  steer(trainer, enough);
  trainer.shutdown();
  return 0;
} catch (const std::exception& why) {
  std::fprintf(stderr, "driver: %s\n", why.what());
  return 1;
}
