// A program that runs itself several times, as its own workers, by train::WarmTrainer: warm_driver
// MODE. $RUNS is the storage path, $GO a file that the test writes. It prints what each run has
// left.
#include <fmt/format.h>
#include <train/train.h>
#include <train/warm_trainer.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/e2e/programs/file_wait.h"

namespace {

using namespace train;

int loops = 0;  // that this process has run

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The training loop. The first attempt of a run waits for a file in its last epoch if the config
/// has `hold`.
void loop(const Config& config) {
  ++loops;
  const int rank = get_context().world_rank(), epochs = config.get<int>("epochs");
  const auto restored = get_checkpoint();
  const int first = restored ? restored->to_value().as<Dict>().at("epoch").as<int>() + 1 : 0;
  for (int epoch = first; epoch < epochs; ++epoch) {
    const bool holds = config.contains("hold") && get_context().attempt() == 0;
    if (holds && epoch == epochs - 1) e2e::wait_for_file(config.get<std::string>("hold"));
    report({{"epoch", epoch}}, Checkpoint::from_json(Dict{{"epoch", epoch}}));
  }
  if (config.get<int>("fail", -1) == rank) throw std::runtime_error("the learning rate is 0");
  set_result(Dict{{"pid", ::getpid()}, {"loops", loops}, {"began", first}});
}

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void say(const RunResult& result) {
  say(fmt::format("result {} {} {} checkpoints {}", result.path.filename().string(), result.outcome,
                  to_json(result.metrics), result.checkpoints.size()));
  for (const Value& rank : result.results) say("  " + to_json(rank));
}

/// Run once more, and say how it went.
void run(WarmTrainer& trainer, Dict config, const std::function<void(Trainer&)>& follow = {}) {
  Trainer run = trainer.next(std::move(config));
  try {
    if (follow) follow(run);
    say(follow ? *run.result() : run.fit());
  } catch (const WorkerGroupError& error) {
    say(fmt::format("WorkerGroupError {}", error.failure().ranks.begin()->second.what));
  }
}

void drive(const std::string& mode, WarmTrainer& trainer) {
  run(trainer, {{"epochs", 1}});
  if (mode == "runs") {
    run(trainer, {{"epochs", 3}}, [](Trainer& second) {
      for (const Round& round : second.iterate())
        say(fmt::format("round {}.{}", round.attempt, round.number));
    });
    say(trainer.run());
  } else if (mode == "failing") {
    run(trainer, {{"epochs", 1}, {"fail", 1}});
    run(trainer, {{"epochs", 2}});
  } else if (mode == "waiting") {
    say("waiting");
    e2e::wait_for_file(variable("GO"));
    run(trainer, {{"epochs", 2}});
  } else if (mode == "restart") {
    run(trainer, {{"epochs", 3}, {"hold", variable("GO")}}, [](Trainer& second) {
      for (const Round& round : second.iterate())
        say(fmt::format("round {}.{} ordinal {}", round.attempt, round.number, round.ordinal));
    });
    run(trainer, {{"epochs", 2}});
  } else if (mode == "shutdown") {
    trainer.shutdown();
    say("shut down");
    e2e::wait_for_file(variable("GO"));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const char* strategy = std::getenv("STRATEGY");
  const Dict spec{
      {"scaling_config", Dict{{"num_workers", 2},
                              {"resources_per_worker", Dict{{"CPU", 0}}},
                              {"placement_strategy", strategy != nullptr ? strategy : "PACK"}}},
      {"run_config", Dict{{"name", "warm"},
                          {"storage_path", variable("RUNS")},
                          {"failure_config", Dict{{"max_failures", argc > 2 ? 1 : 0}}}}},
      {"train_loop_config", Dict{{"epochs", 2}}}};
  WarmTrainer trainer(argc, argv, spec, loop);
  drive(argv[1], trainer);
  return 0;
}
