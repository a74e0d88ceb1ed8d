// The training program of chaos: it does steps of step_ms each, reports every one, and saves a
// checkpoint every checkpoint_every steps and at the end. Its state does not depend on the number
// of ranks, so a group may be resized.
#include <train/train.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/chaos/steps.h"

namespace {

using train::chaos::after_step;
using train::chaos::state_text;

struct Progress {
  std::int64_t step = -1;  // the last completed one
  std::uint64_t state = 0;
};

train::Checkpoint checkpoint_of(const Progress& progress) {
  const train::Dict value{{"step", progress.step}, {"state", state_text(progress.state)}};
  const int rank = train::get_context().world_rank();
  if (rank == 0) return train::Checkpoint::from_json(value);
  return train::Checkpoint::from_writer([value, rank](const std::filesystem::path& folder) {
    std::ofstream(folder / ("rank-" + std::to_string(rank) + ".json")) << train::to_json(value);
  });
}

Progress restored() {
  const auto checkpoint = train::get_checkpoint();
  if (!checkpoint) return {};
  const auto value = checkpoint->to_value().as<train::Dict>();
  const Progress progress{value.at("step").as<std::int64_t>(),
                          std::stoull(value.at("state").as<std::string>(), nullptr, 16)};
  if (progress.step + 1 != train::start_epoch())
    throw std::runtime_error("the checkpoint is of another step than it was reported with");
  return progress;
}

// Check with a collective, which goes through the launcher, that all ranks have the same state.
void agree(const Progress& progress) {
  const train::Dict mine{{"state", static_cast<std::int64_t>(progress.state & 0xffffffff)}};
  if (train::reduce(mine, train::Reduce::Min) != train::reduce(mine, train::Reduce::Max))
    throw std::runtime_error("ranks differ after step " + std::to_string(progress.step));
}

void loop(const train::Config& config) {
  const auto steps = config.get<std::int64_t>("steps");
  const auto every = config.get<std::int64_t>("checkpoint_every");
  const std::chrono::milliseconds pace(config.get<int>("step_ms"));
  const bool agrees = config.get<bool>("agree", false);
  Progress progress = restored();
  train::on_stop([&progress] { return checkpoint_of(progress); });
  while (progress.step + 1 < steps) {
    std::this_thread::sleep_for(pace);
    ++progress.step;
    progress.state = after_step(progress.state, progress.step);
    const bool saves = (progress.step + 1) % every == 0 || progress.step + 1 == steps;
    if (saves && agrees) agree(progress);
    const train::Dict metrics{{"epoch", progress.step},
                              {"state", state_text(progress.state)},
                              {"world", train::get_context().world_size()}};
    if (saves)
      train::report(metrics, checkpoint_of(progress));
    else
      train::report(metrics);
  }
  train::set_result(state_text(progress.state));
}

}  // namespace

int main(int argc, char** argv) { return train::run(argc, argv, loop); }
