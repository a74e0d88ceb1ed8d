// Trains a small model with everything that torch_loop.h has: accumulation, float16 with a scaler,
// clipping, a schedule, a meter. Reports a checkpoint each four steps. With `die_at`, rank 1 is
// killed in the first attempt before that step.
#include <train/torch_loop.h>
#include <train/train.h>

#include <csignal>

namespace {

constexpr int kSteps = 20, kEvery = 4, kOverflowAt = 6, kParts = 3;

/// Rank r's part i of a step has 1 + r + i rows.
torch::Tensor rows_of(int rank, int step, int part) {
  const std::int64_t rows = 1 + rank + part;
  return torch::linspace(-1 - step, 1 + part, rows * 4).reshape({rows, 4}) / (1 + step);
}

double sum_of_squares(const torch::nn::Module& module) {
  double sum = 0;
  for (const torch::Tensor& parameter : module.parameters())
    sum += parameter.detach().to(torch::kFloat64).square().sum().item<double>();
  return sum;
}

void loop(const train::Config& config) {
  torch::set_num_threads(1);
  train::reproducible(7);
  const train::Context& context = train::get_context();
  const int rank = context.world_rank();
  auto model = train::prepare_model(torch::nn::Linear(4, 4));
  train::FusedAdamW optimizer(model->parameters(), torch::optim::AdamWOptions(5e-2));
  train::GradScaler scaler({.init_scale = 1024, .growth_interval = 5});
  train::LrSchedule schedule(optimizer, train::lr::warmup(4).cosine(16, 0.1));
  train::StepMeter meter;
  int step = 0;
  if (auto checkpoint = train::get_checkpoint()) {
    checkpoint->load(model, optimizer, scaler, schedule, meter);
    step = checkpoint->metadata().at("step").as<int>();
  }
  while (step < kSteps) {
    if (context.attempt() == 0 && rank == 1 && step == config.get<int>("die_at", -1))
      std::raise(SIGKILL);
    std::vector<torch::Tensor> parts;
    for (int part = 0; part < kParts; ++part) parts.push_back(rows_of(rank, step, part));
    for (auto& micro : train::accumulate(model, parts, kParts)) {
      torch::Tensor loss;
      {
        const train::Autocast autocast({.dtype = torch::kHalf});
        const auto noise = torch::rand({micro.batch.size(0), 4}) / 10;
        loss = (model(micro.batch + noise).to(torch::kFloat32) - 1).square().mean();
      }
      meter.add(micro.batch.size(0), loss);
      scaler.scale(loss * micro.weight * (step == kOverflowAt ? 1e36 : 1)).backward();
      if (!micro.last) continue;
      scaler.unscale(optimizer);
      train::clip_grad_norm(optimizer, 0.5);
      if (scaler.step(optimizer)) schedule.step();
      scaler.update();
      optimizer.zero_grad();
    }
    if (++step % kEvery != 0) continue;
    train::Dict metrics = meter.fields();
    metrics["step"] = step;
    metrics["lr"] = schedule.lr();
    metrics["scale"] = scaler.get_scale();
    metrics["skipped"] = scaler.skipped_steps();
    metrics["weights"] = sum_of_squares(*model);
    metrics["deterministic"] = at::globalContext().deterministicAlgorithms() ? 1 : 0;
    auto checkpoint = train::Checkpoint::from_state(model, optimizer, scaler, schedule, meter);
    checkpoint.set_metadata({{"step", step}});
    train::report(metrics, checkpoint, {.upload = train::Upload::Sync});
  }
}

}  // namespace

int main(int argc, char** argv) { return train::run(argc, argv, loop); }
