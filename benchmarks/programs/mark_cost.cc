// What it costs to mark progress: a step, and a phase that is entered and left. Prints nanoseconds
// per call, the median of 20 rounds.
#include <train/progress.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "sdk/client/progress.h"

namespace {

constexpr int kRounds = 20, kCalls = 1'000'000;

template <class Call>
double nanoseconds(const Call& call) {
  std::vector<double> rounds;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    rounds.push_back(took.count() / kCalls);
  }
  std::nth_element(rounds.begin(), rounds.begin() + kRounds / 2, rounds.end());
  return rounds[kRounds / 2];
}

}  // namespace

int main() {
  std::printf("train::step()                  %.1f ns\n", nanoseconds([] { train::step(); }));
  std::printf("a phase, entered and left      %.1f ns\n",
              nanoseconds([] { const train::sdk::InPhase phase(train::Phase::Data, "train"); }));
  std::printf("reading the clock              %.1f ns\n", nanoseconds([] {
                [[maybe_unused]] volatile auto now =
                    std::chrono::steady_clock::now().time_since_epoch().count();
              }));
}
