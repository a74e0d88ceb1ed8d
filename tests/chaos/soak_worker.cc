// Trains for `minutes` as healthy programs do that a watchdog takes for hung: its first step takes
// ten times as long as the others, one in fifty twenty times; it says how far a long download is,
// takes long to write its checkpoints, validates, and its ranks wait for each other. One rank is
// slower than the others. All times are below the limits of hang_soak.sh.
#include <train/train.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kStep = 600ms;
constexpr int kFirstStep = 10, kLongStep = 20, kLongStepEvery = 50;  // in steps
constexpr int kCheckpointEvery = 40, kValidateEvery = 60;
constexpr auto kCheckpointTakes = 20s, kValidationTakes = 20s, kSayEvery = 6s;
constexpr int kDownloadParts = 10;

void download() {
  const auto phase = train::phase("download");
  for (int part = 1; part <= kDownloadParts; ++part) {
    phase.say(std::to_string(part) + " of " + std::to_string(kDownloadParts) + " parts");
    std::this_thread::sleep_for(kSayEvery);
  }
}

void compute(std::chrono::milliseconds length, bool busy) {
  const auto end = Clock::now() + length;
  if (!busy) return std::this_thread::sleep_until(end);
  while (Clock::now() < end) {
  }
}

std::chrono::milliseconds length_of(int step, int rank) {
  if (step == 0) return kStep * kFirstStep;
  if (step % kLongStepEvery == 0) return kStep * kLongStep;
  return rank == 1 ? kStep * 2 : kStep;
}

train::Checkpoint slow_checkpoint(int step) {
  return train::Checkpoint::from_writer([step](const std::filesystem::path& folder) {
    std::this_thread::sleep_for(kCheckpointTakes);
    std::ofstream(folder / "step") << step;
  });
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    const int rank = train::get_context().world_rank();
    const auto end = Clock::now() + std::chrono::minutes(config.get<int>("minutes"));
    if (rank == 0) download();
    for (int step = 0;; ++step) {
      // One step in twenty computes; the machine has others to compute, too.
      compute(length_of(step, rank), step % 20 == 0);
      if (step % kValidateEvery == kValidateEvery - 1) {
        const auto phase = train::phase("eval");
        std::this_thread::sleep_for(kValidationTakes);
      }
      const bool last = train::broadcast_from_rank_zero(Clock::now() >= end).as<bool>();
      const train::Dict metrics{{"step", step}};
      if (last) return train::report(metrics);
      if (step % kCheckpointEvery == kCheckpointEvery - 1)
        train::report(metrics, slow_checkpoint(step));
      else
        train::report(metrics);
    }
  });
}
