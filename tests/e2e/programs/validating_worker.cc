// Trains `accuracies` epochs, each with a checkpoint, and validates its own checkpoints: epoch k
// has val_acc = accuracies[k]. Listed epochs wait or fail, as the test wants.
#include <signal.h>
#include <train/train.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/e2e/programs/file_wait.h"

namespace {

using train::Config;
using train::e2e::wait_for_file;

bool listed(const Config& config, const std::string& key, int epoch) {
  const auto epochs = config.get<std::vector<int>>(key, {});
  return std::find(epochs.begin(), epochs.end(), epoch) != epochs.end();
}

std::string go_file(const Config& config, const std::string& what, int epoch) {
  return config.get<std::string>("go") + "-" + what + "-" + std::to_string(epoch);
}

train::Dict validate(const train::Checkpoint& checkpoint, const Config& config) {
  const int epoch = checkpoint.to_value().as<train::Dict>().at("epoch").as<int>();
  std::printf("validating epoch %d of %s\n", epoch, train::get_context().run_name().c_str());
  std::fflush(stdout);
  if (listed(config, "hold_validation", epoch)) wait_for_file(go_file(config, "validate", epoch));
  if (listed(config, "throw_at", epoch)) throw std::runtime_error("the labels are gone");
  if (listed(config, "crash_at", epoch)) ::raise(SIGSEGV);
  if (listed(config, "hang_at", epoch)) ::pause();
  return {{"val_acc", config.get<std::vector<double>>("accuracies").at(epoch)},
          {"world", train::get_context().world_size()}};
}

const char* word_of(train::CheckpointStatus status) {
  constexpr const char* kWords[] = {"committed", "pending", "validated", "timeout", "failed"};
  return kWords[static_cast<int>(status)];
}

void list(train::Consistency consistency) {
  for (const auto& one : train::get_all_reported_checkpoints({.consistency = consistency})) {
    const auto accuracy = one.metrics.find("val_acc");
    std::printf("%llu %s epoch=%d val_acc=%s\n", static_cast<unsigned long long>(one.number),
                word_of(one.status),
                one.checkpoint.to_value().as<train::Dict>().at("epoch").as<int>(),
                accuracy == one.metrics.end() ? "none" : train::to_json(accuracy->second).c_str());
  }
  std::fflush(stdout);
}

void train_loop(const Config& config) {
  const int epochs = static_cast<int>(config.get<std::vector<double>>("accuracies").size());
  for (int epoch = train::start_epoch(); epoch < epochs; ++epoch) {
    if (listed(config, "hold_training", epoch)) wait_for_file(go_file(config, "train", epoch));
    const bool first = train::get_context().attempt() == 0;
    if (first && listed(config, "die_at", epoch)) ::raise(SIGKILL);
    train::report({{"epoch", epoch}, {"val_acc", 0.0}},
                  train::Checkpoint::from_json(train::Dict{{"epoch", epoch}}));
  }
  if (!config.get<bool>("list", false)) return;
  list(train::Consistency::Committed);
  list(train::Consistency::Validated);
}

}  // namespace

int main(int argc, char** argv) {
  train::validation(validate);
  return train::run(argc, argv, train_loop);
}
