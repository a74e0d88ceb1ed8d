// Trains on a dataset whose row i is the number i, with a checkpoint every `checkpoint_every`
// steps, and writes the rows of each step to `seen`-RANK. In attempt 0, it kills rank `die_rank`
// before step `die_step`, once its first checkpoint is committed. With `fails`, its first tensor
// operation throws. With `named`, the loader has a name, and the program does not save its sampler;
// with `leave_after`, it leaves each epoch after as many steps.
#include <signal.h>
#include <train/torch.h>
#include <train/train.h>
#include <unistd.h>

#include <fstream>

#include "tests/e2e/programs/file_wait.h"

namespace {

struct Numbers : torch::data::Dataset<Numbers> {
  explicit Numbers(std::size_t count) : rows(count) {}
  torch::data::Example<> get(std::size_t index) override {
    const auto row = torch::full({1}, static_cast<float>(index));
    return {row, row};
  }
  torch::optional<std::size_t> size() const override { return rows; }
  std::size_t rows;
};

/// Write lines "ATTEMPT EPOCH STEP ROW", complete even if the process is killed.
void note(std::ofstream& seen, std::uint64_t epoch, int step, const torch::Tensor& rows) {
  for (std::int64_t i = 0; i < rows.size(0); ++i) {
    seen << train::get_context().attempt() << ' ' << epoch << ' ' << step << ' '
         << rows[i].item<float>() << std::endl;
  }
}

void die_where_asked(const train::Config& config, int step) {
  const train::Context& context = train::get_context();
  if (context.attempt() != 0 || context.world_rank() != config.get<int>("die_rank", -1) ||
      step != config.get<int>("die_step"))
    return;
  train::e2e::wait_for_file(context.storage_path() +
                            "/checkpoints/checkpoint_000001/.manifest.json");
  ::kill(::getpid(), SIGKILL);
}

[[gnu::noinline]] torch::Tensor reshape_wrongly() { return torch::zeros({2, 3}).view({5}); }

void train_numbers(const train::Config& config) {
  if (config.get<bool>("fails", false)) reshape_wrongly();
  auto model = train::prepare_model(torch::nn::Linear(1, 1));
  torch::optim::SGD optimizer(model->parameters(), /*lr=*/1e-6);
  const bool named = config.get<bool>("named", false);
  const auto batch = static_cast<std::size_t>(
      named ? train::per_worker_batch(config.get<int>("global_batch")) : 2);
  auto loader = train::prepare_data_loader(
      Numbers(config.get<std::size_t>("rows")).map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions(batch).workers(2), {.seed = 5, .name = named ? "train" : ""});
  torch::Tensor steps = torch::zeros({1}, torch::kInt64);
  train::ShardedState counters;
  counters.replicated("steps", steps);
  if (auto checkpoint = train::get_checkpoint()) {
    if (named)
      checkpoint->load(model, optimizer, counters);
    else
      checkpoint->load(model, optimizer, counters, loader.sampler());
  }

  std::ofstream seen(
      config.get<std::string>("seen") + "-" + std::to_string(train::get_context().world_rank()),
      std::ios::app);
  const auto epochs = config.get<std::uint64_t>("epochs");
  const int leave_after = config.get<int>("leave_after", 0);
  for (auto epoch = loader.sampler().epoch(); epoch < epochs; ++epoch) {
    int steps_of_epoch = 0;
    for (auto& batch : loader) {
      const int step = static_cast<int>(steps.add_(1).item<std::int64_t>());
      die_where_asked(config, step);
      optimizer.zero_grad();
      torch::mse_loss(model(batch.data), batch.target).backward();
      optimizer.step();
      note(seen, epoch, step, batch.data);
      const train::Dict metrics{{"epoch", epoch}, {"step", step}};
      if (step % config.get<int>("checkpoint_every") != 0) {
        train::report(metrics);
      } else if (named) {
        train::report(metrics, train::Checkpoint::from_state(model, optimizer, counters));
      } else {
        train::report(metrics,
                      train::Checkpoint::from_state(model, optimizer, counters, loader.sampler()));
      }
      if (++steps_of_epoch == leave_after) break;
    }
    if (leave_after > 0)
      train::report({{"epoch", epoch}}, train::Checkpoint::from_state(model, optimizer, counters));
  }
}

}  // namespace

int main(int argc, char** argv) { return train::run(argc, argv, train_numbers); }
