// Trains a small network on a table whose columns the spec's preprocessors turn into one row of
// numbers, and predicts with a checkpoint of it, by the preprocessors that it keeps.
//   train-run examples/tabular/job.yaml
//   tabular predict CHECKPOINT FILE.csv
#include <arrow/array.h>
#include <arrow/csv/api.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <train/torch.h>
#include <train/train.h>

#include <cstdio>
#include <cstring>

namespace {

constexpr const char* kFeatures = "x";  // what the spec's concatenator makes
constexpr const char* kLabel = "buys";

struct NetImpl : torch::nn::Module {
  explicit NetImpl(std::int64_t features) {
    layers = register_module(
        "layers", torch::nn::Sequential(torch::nn::Linear(features, 32), torch::nn::ReLU(),
                                        torch::nn::Linear(32, 1)));
  }
  /// [rows, features] → [rows], the logit of each row's probability
  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x).flatten(); }
  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Net);

/// Return how many numbers each row has.
std::int64_t features_in(const arrow::Schema& schema) {
  const auto field = schema.GetFieldByName(kFeatures);
  const auto* list =
      field ? dynamic_cast<const arrow::FixedSizeListType*>(field->type().get()) : nullptr;
  if (list == nullptr)
    throw train::Failure("invalid_argument", "the preprocessors make no column x of numbers");
  return list->list_size();
}

// ---- training

torch::Tensor summed_loss(const torch::Tensor& logits, const torch::Tensor& label,
                          std::int64_t valid_rows) {
  return torch::nn::functional::binary_cross_entropy_with_logits(
      logits.narrow(0, 0, valid_rows), label.narrow(0, 0, valid_rows),
      torch::nn::functional::BinaryCrossEntropyWithLogitsFuncOptions().reduction(torch::kSum));
}

train::TorchBatchOptions batches_of(std::int64_t rows) {
  return {.batch_size = rows, .dtypes = {{kLabel, torch::kFloat32}}};
}

/// Return loss and accuracy over the held-out rows of all ranks.
train::Dict evaluate(train::DataParallel<NetImpl>& model, const train::TorchBatchOptions& batches) {
  const torch::NoGradGuard no_grad;
  double loss = 0, correct = 0, rows = 0;
  for (auto& batch : train::get_dataset_shard("valid").iter_torch_batches(batches)) {
    const auto logits = model(batch[kFeatures]);
    const auto right = (logits > 0).eq(batch[kLabel] > 0.5).narrow(0, 0, batch.valid_rows);
    loss += summed_loss(logits, batch[kLabel], batch.valid_rows).item<double>();
    correct += right.sum().item<double>();
    rows += static_cast<double>(batch.valid_rows);
  }
  const auto all =
      train::reduce({{"loss", loss}, {"correct", correct}, {"rows", rows}}, train::Reduce::Sum);
  const auto count = all.at("rows").as<double>();
  return {{"val_loss", all.at("loss").as<double>() / count},
          {"accuracy", all.at("correct").as<double>() / count}};
}

void train_net(const train::Config& config) {
  torch::manual_seed(1);
  auto people = train::get_dataset_shard("train");  // fits the preprocessors at the first start
  auto model = train::prepare_model(Net(features_in(*people.schema())));
  train::FusedAdamW optimizer(model->parameters(),
                              torch::optim::AdamWOptions(config.get<double>("lr", 1e-2)));
  if (auto checkpoint = train::get_checkpoint()) checkpoint->load(model, optimizer);

  const int global_batch = config.get<int>("batch_size", 128);
  const auto batches = batches_of(train::per_worker_batch(global_batch));
  const double weight = static_cast<double>(train::get_context().world_size()) / global_batch;
  for (int epoch = train::start_epoch(); epoch < config.get<int>("epochs", 5); ++epoch) {
    for (auto& batch : people.iter_torch_batches(batches)) {
      optimizer.zero_grad();
      const auto loss = summed_loss(model(batch[kFeatures]), batch[kLabel], batch.valid_rows);
      (loss * weight).backward();
      optimizer.step();
    }
    auto metrics = evaluate(model, batches);
    metrics["epoch"] = epoch;
    train::report(metrics, train::Checkpoint::from_state(model, optimizer));
  }
}

// ---- prediction, in a program of its own: no job, no ranks

template <class T>
T must(arrow::Result<T> result) {
  if (!result.ok()) throw train::Failure("io", result.status().ToString());
  return std::move(result).ValueUnsafe();
}

std::shared_ptr<arrow::RecordBatch> read_csv(const std::string& path) {
  const auto reader = must(arrow::csv::TableReader::Make(
      arrow::io::default_io_context(), must(arrow::io::ReadableFile::Open(path)),
      arrow::csv::ReadOptions::Defaults(), arrow::csv::ParseOptions::Defaults(),
      arrow::csv::ConvertOptions::Defaults()));
  return must(must(reader->Read())->CombineChunksToBatch());
}

/// Return the column of features as [rows, features].
torch::Tensor features_of(const arrow::RecordBatch& rows) {
  const std::int64_t width = features_in(*rows.schema());
  const auto column = rows.GetColumnByName(kFeatures);
  const auto& lists = static_cast<const arrow::FixedSizeListArray&>(*column);
  const auto& values = static_cast<const arrow::FloatArray&>(*lists.values());
  auto x = torch::empty({rows.num_rows(), width});
  std::memcpy(x.data_ptr(), values.raw_values() + lists.value_offset(0), x.nbytes());
  return x;
}

int predict(const std::string& folder, const std::string& path) {
  try {
    const auto checkpoint = train::Checkpoint::open(folder);
    const auto rows = train::load_preprocessors(checkpoint).apply(read_csv(path));
    Net model(features_in(*rows->schema()));
    checkpoint.load(model);
    const torch::NoGradGuard no_grad;
    const auto probability = torch::sigmoid(model(features_of(*rows)));
    for (std::int64_t row = 0; row < probability.size(0); ++row)
      std::printf("%.3f\n", probability[row].item<double>());
    return 0;
  } catch (const train::Failure& why) {
    std::fprintf(stderr, "tabular: %s\n", why.what());
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "predict") == 0) return predict(argv[2], argv[3]);
  return train::run(argc, argv, train_net);
}
