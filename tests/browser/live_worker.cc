// Trains in steps until `reports` are made, for the pages to show: prints lines, reports metrics
// (also under names that are markup), and hands over checkpoints. `crash_file`: rank 1 kills itself
// when this file appears, once. `end_file`: all end when it appears. `slow_rank`: its steps take
// `slow_ms` longer.
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <train/train.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace {

/// Waits for files that the test makes.
class Signals {
 public:
  /// Wait for these files; "" stands for none.
  explicit Signals(std::vector<std::string> files) : files_(std::move(files)) {
    for (const std::string& file : files_) {
      const std::filesystem::path folder = std::filesystem::path(file).parent_path();
      ::inotify_add_watch(watch_, folder.c_str(), IN_CREATE | IN_MOVED_TO);
    }
  }
  static bool appeared(const std::string& file) {
    return !file.empty() && ::access(file.c_str(), F_OK) == 0;
  }
  /// Wait until one of them is there, for a step's length at the most.
  void wait(std::chrono::milliseconds step) const {
    const auto until = std::chrono::steady_clock::now() + step;
    while (std::none_of(files_.begin(), files_.end(), appeared)) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      pollfd changed{watch_, POLLIN, 0};
      if (left.count() <= 0 || ::poll(&changed, 1, static_cast<int>(left.count())) == 0) return;
      std::array<char, 4096> events{};
      if (::read(watch_, events.data(), events.size()) < 0) return;
    }
  }

 private:
  const std::vector<std::string> files_;
  const int watch_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
};

void print_lines(int rank, int report) {
  std::printf("rank %d at report %d\n", rank, report);
  if (report % 5 == 0) std::printf("<script>document.title = 'taken over'</script>\n");
  std::fflush(stdout);
  if (report % 7 == 0) std::fprintf(stderr, "warning %d of rank %d\n", report, rank);
}

/// Need memory for a moment, and show that to the compiler.
[[gnu::noinline]] void load_batch() {
  std::vector<char> batch(std::size_t{1} << 20, 'x');
  asm volatile("" : : "r"(batch.data()) : "memory");
}

train::Dict metrics_of(int report) {
  const double left = std::exp(-report / 40.0);
  train::Dict metrics{{"epoch", report / 10},
                      {"loss", 2.5 * left + 0.02 * std::sin(report)},
                      {"accuracy", 1 - 0.9 * left},
                      {"<b>bold</b>", report},
                      {"note", "<img src=x onerror=alert(1)>"}};
  if (report % 20 == 0) metrics["loss"] = std::nan("");
  return metrics;
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    const train::Context& context = train::get_context();
    const bool slow = context.world_rank() == config.get<int>("slow_rank", -1);
    const std::chrono::milliseconds step(config.get<int>("report_ms", 100) +
                                         (slow ? config.get<int>("slow_ms", 100) : 0));
    const bool may_crash = context.world_rank() == 1 && context.attempt() == 0;
    const std::string crash = may_crash ? config.get<std::string>("crash_file", "") : "";
    const std::string end = config.get<std::string>("end_file", "");
    const Signals signals({crash, end});
    const int every = config.get<int>("checkpoint_every", 10);
    int report = train::start_epoch() * 10;
    for (; report < config.get<int>("reports", 1'000'000) && !train::should_stop(); ++report) {
      print_lines(context.world_rank(), report);
      load_batch();
      signals.wait(step);
      if (Signals::appeared(crash)) ::kill(::getpid(), SIGKILL);
      const auto ends =
          train::reduce({{"ends", Signals::appeared(end) ? 1 : 0}}, train::Reduce::Max);
      if (ends.at("ends").as<double>() > 0) break;
      const bool asked_for = train::checkpoint_requested();
      if ((report + 1) % every != 0 && !asked_for)
        train::report(metrics_of(report));
      else if (context.world_rank() == 0)
        train::report(metrics_of(report),
                      train::Checkpoint::from_json(train::Dict{{"report", report}}));
      else
        train::report(metrics_of(report),
                      train::Checkpoint::from_writer([](const std::filesystem::path&) {}));
    }
    train::set_result(train::Dict{{"reports", report}});
  });
}
