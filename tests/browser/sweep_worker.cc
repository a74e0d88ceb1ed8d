// A trial for the pages of sweeps: its loss falls as its parameters let it. `hold_file`: once it
// has come to `epochs`, it goes on, slowly, until this file appears. `bad_layers`: with so many
// layers, it fails at its second epoch; a negative `lr` makes no sense.
#include <train/train.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    const auto lr = config.get<double>("lr", 0.1);
    const int layers = config.get<int>("layers", 2);
    const auto optimizer = config.get<std::string>("optimizer", "sgd");
    const auto hold = config.get<std::string>("hold_file", "");
    const std::chrono::milliseconds step(config.get<int>("step_ms", 5));
    constexpr int kBadSpec = 78;
    if (lr < 0) std::_Exit(kBadSpec);
    const double far = std::abs(std::log10(lr) + 2) + (optimizer == "adam" ? 0 : 0.3);
    const double floor = 0.15 + 0.12 * far + 0.03 * std::abs(layers - 4);
    const auto ends = [&](int epoch) {
      if (epoch <= config.get<int>("epochs", 27)) return false;
      return hold.empty() || ::access(hold.c_str(), F_OK) == 0;
    };
    for (int epoch = 1; !ends(epoch) && !train::should_stop(); ++epoch) {
      std::this_thread::sleep_for(hold.empty() ? step : 10 * step);
      if (epoch == 2 && layers == config.get<int>("bad_layers", -1))
        throw std::runtime_error("no memory for so many layers");
      const double left = std::exp(-epoch * (0.08 + 0.2 / (1 + far)));
      train::report({{"epoch", epoch}, {"loss", floor + 2 * left + 0.01 * std::sin(3.0 * epoch)}});
    }
  });
}
