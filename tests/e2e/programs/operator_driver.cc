// A driver that steers its training pass by pass: operator_driver NAME [die]. It prints what the
// passes give. Its spec is in $RUNS.
#include <signal.h>
#include <train/torch_operator.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <vector>

namespace {

using Rows = torch::data::datasets::TensorDataset;

bool said(int argc, char** argv, const char* word) {
  for (int i = 2; i < argc; ++i)
    if (std::strcmp(argv[i], word) == 0) return true;
  return false;
}

/// Points of which the operator learns on which side of a line they are.
struct Points : torch::data::datasets::Dataset<Points> {
  torch::Tensor points, sides;
  Points() {
    auto generator = at::detail::createCPUGenerator(1);
    points = torch::rand({64, 2}, generator) * 2 - 1;
    sides = points.sum(1).gt(0).to(torch::kLong);
  }
  torch::data::Example<> get(std::size_t index) override {
    const auto row = static_cast<std::int64_t>(index);
    return {points[row], sides[row]};
  }
  torch::optional<std::size_t> size() const override { return 64; }
};

auto loader() {
  return train::prepare_data_loader(
      Points().map(torch::data::transforms::Stack<>()),
      torch::data::DataLoaderOptions(static_cast<std::size_t>(train::per_worker_batch(16))));
}

struct Lines final : train::TrainingOperator<> {
  void setup(const train::Config& config) override {
    dies = config.get<bool>("die", false);
    torch::manual_seed(0);
    model = register_model(torch::nn::Linear(2, 2)).ptr();
    auto& optimizer =
        register_optimizer<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.5));
    register_schedule(optimizer, train::lr::steps(1, 0.5), train::SchedulerStep::Manual);
    auto& of_passes =
        register_schedule(optimizer, train::lr::constant(), train::SchedulerStep::Epoch);
    train::serve("passes",
                 [&of_passes](const train::Value&) { return train::Value(of_passes.steps()); });
    register_criterion(torch::nn::CrossEntropyLoss());
    if (config.get<bool>("data", true)) register_data(loader(), loader());
    train::serve("weights", [this](const train::Value& digits) {
      train::List numbers;
      const double scale = std::pow(10, digits.as<int>());
      const torch::Tensor weights = model->weight.detach().flatten();
      for (std::int64_t i = 0; i < weights.numel(); ++i)
        numbers.emplace_back(std::round(weights[i].item<double>() * scale) / scale);
      return train::Value(numbers);
    });
  }

  train::Dict train_batch(torch::data::Example<>& batch, const train::BatchInfo& info) override {
    const int rank = train::get_context().world_rank();
    if (dies && info.epoch == 1 && info.batch_idx == 2 && rank == 1 &&
        train::get_context().attempt() == 0)
      ::kill(::getpid(), SIGKILL);
    if (const auto fail = info.info.find("fail"); fail != info.info.end())
      if (fail->second == train::Value(rank)) throw std::runtime_error("a mistake of the operator");
    return TrainingOperator::train_batch(batch, info);
  }

  train::Dict state() const override { return {{"answer", 42}}; }
  void load_state(const train::Dict& state) override {
    if (state.at("answer") != train::Value(42)) throw train::Failure("corrupt", "another answer");
  }

  bool dies = false;
  std::shared_ptr<torch::nn::LinearImpl> model;
};

template <class Value>
void say(const char* what, const Value& value) {
  std::cout << what << " " << train::to_json(value) << std::endl;
}

train::Dict only(const train::Dict& all, const std::vector<std::string>& names) {
  train::Dict some;
  for (const std::string& name : names)
    if (const auto found = all.find(name); found != all.end()) some.insert(*found);
  return some;
}

/// What is refused changes nothing, and kills nobody.
void ask_for_what_is_not_there(train::OperatorTrainer& trainer) {
  const auto refused = [](const char* what, auto&& call) {
    try {
      call();
    } catch (const train::Failure& why) {
      say(what, why.kind() + ": " + why.what());
    }
  };
  refused("train", [&] { trainer.train(); });
  refused("validate", [&] { trainer.validate(); });
  refused("load", [&] { trainer.load("nowhere"); });
  say("rates", train::List{trainer.update_scheduler()[0]});
}

void drive(train::OperatorTrainer& trainer, const std::string& name) {
  for (int i = 0; i < 3; ++i) {
    const train::Dict trained = trainer.train({.profile = true});
    say("train", only(trained, {"epoch", "batch_count", "num_samples"}));
    train::List timed;
    for (const auto& [field, value] : trained)
      if (field.ends_with("_s") && value.as<double>() > 0) timed.emplace_back(field);
    say("timed", timed);
  }
  say("steps", trainer.train_by_rank({.num_steps = 1})[1].at("batch_count"));
  say("accuracy", trainer.validate().at("val_accuracy"));
  for (const int rank : {0, 1}) {
    try {  // the other one waits for it
      trainer.train({.info = {{"fail", rank}}});
    } catch (const train::CallFailed& why) {
      say("failed", why.what());
    }
  }
  say("rates", train::List{trainer.update_scheduler()[0]});
  const auto ranks = trainer.apply_all_operators("weights", 6);
  say("passes", trainer.apply_all_operators("passes"));
  say("equal", ranks.size() == 2 && ranks[0] == ranks[1]);
  say("weights", ranks[0]);
  trainer.save(name + ".saved");
  trainer.train();
  say("trained", trainer.apply_all_operators("weights", 6)[0] != ranks[0]);
  trainer.load(name + ".saved");
  say("loaded", trainer.apply_all_operators("weights", 6)[1] == ranks[0]);
  torch::nn::Linear model(2, 2);
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  say("files", std::filesystem::exists(trainer.get_model().as_directory() / "model.safetensors"));
  try {
    trainer.save(name + ".saved");
  } catch (const train::Failure& why) {
    say("again", why.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* runs = std::getenv("RUNS");
  const std::string name = argv[1];
  try {
    auto trainer =
        train::operate<Lines>(argc, argv,
                              {{"scaling_config.num_workers", 2},
                               {"scaling_config.resources_per_worker", train::Dict{{"CPU", 0}}},
                               {"train_loop_config.die", said(argc, argv, "die")},
                               {"train_loop_config.data", !said(argc, argv, "bare")},
                               {"run_config.name", name},
                               {"run_config.storage_path", runs != nullptr ? runs : ""}});
    if (said(argc, argv, "bare"))
      ask_for_what_is_not_there(trainer);
    else
      drive(trainer, name);
    say("outcome", trainer.shutdown().outcome);
  } catch (const std::exception& why) {
    std::cerr << why.what() << "\n";
    return 1;
  }
}
