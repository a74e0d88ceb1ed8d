// chaos: run jobs of real processes one after the other, with faults from a seed, and judge each
// run when it has ended. See docs/testing.md, "Chaos".
#include <fmt/format.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <random>
#include <thread>

#include "tests/chaos/checker.h"
#include "tests/chaos/injector.h"

namespace train::chaos {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(10);
constexpr double kEndLimit = 90;  // after the last fault, beyond what the run itself still needs

struct Options {
  PlanOptions plan;
  double seconds = 300;             // keep beginning rounds for this long
  double every = 5;                 // between two faults
  double round_seconds = 0;         // length of a run without faults
  int first_round = 0, rounds = 0;  // 0: as many as the time allows
};

struct Summary {
  int rounds = 0, faults = 0;
  std::map<Fault, int> counts;
  int breaks = 0, leftovers = 0, attempts = 0;
  std::int64_t repeated_steps = 0;
  double useful = 0, wall = 0;  // seconds
};

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

double since(TimePoint start) { return e2e::Seconds(Clock::now() - start).count(); }

class Round {
 public:
  Round(const Options& options, int number)
      : options_(options),
        number_(number),
        plan_(options.plan, number, options.round_seconds),
        world_(plan_.shape()),
        injector_(world_, plan_) {}

  void run(Summary& summary) {
    say_shape();
    ::testing::TestPartResultArray failures;
    {
      ::testing::ScopedFakeTestPartResultReporter reporter(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &failures);
      start_ = Clock::now();
      world_.start_all();
      start_ = Clock::now();
      strike_until_the_end();
      wall_ = since(start_);
      injector_.tick(true);
      check_results(world_, findings_);
      check_leftovers(world_, findings_);
    }
    for (int i = 0; i < failures.size(); ++i)
      findings_.breaks.emplace_back(failures.GetTestPartResult(i).message());
    add_to(summary);
  }

 private:
  void say_shape() const {
    const Shape& shape = plan_.shape();
    say(fmt::format(
        "round {}: {} steps of {} ms, {} workers, {} stand by, a checkpoint every {} steps{}{}{}{}",
        number_, shape.steps, shape.step_ms,
        shape.elastic() ? fmt::format("{} to {}", shape.workers_min, shape.workers_max)
                        : fmt::format("{}", shape.workers_max),
        shape.standbys, shape.checkpoint_every, shape.agrees ? ", collectives" : "",
        shape.relayed ? ", relayed" : "", shape.fake_clock ? ", clock faked" : "",
        shape.pace == 0 ? "" : fmt::format(", a driver's pace {}", shape.pace)));
  }

  // Inject faults until the run ends, but not forever: once the faults stop, the run must end.
  void strike_until_the_end() {
    const double needed = plan_.shape().seconds();
    const TimePoint last_fault = after(3 * needed + options_.every);
    const TimePoint give_up =
        last_fault + std::chrono::duration_cast<Clock::duration>(e2e::Seconds(needed + kEndLimit));
    TimePoint next = after(options_.every);
    while (!world_.run_ended()) {
      std::this_thread::sleep_for(kLookEvery);
      injector_.tick();
      for (std::string& problem : world_.tick()) findings_.breaks.push_back(std::move(problem));
      if (Clock::now() >= next && Clock::now() < last_fault) {
        next += std::chrono::duration_cast<Clock::duration>(e2e::Seconds(options_.every));
        const std::string fault = injector_.strike();
        if (!fault.empty()) say(fmt::format("  {:6.1f} s  {}", since(start_), fault));
      }
      if (Clock::now() < give_up) continue;
      findings_.breaks.push_back(
          fmt::format("the run has not ended {:.0f} s after the last fault", needed + kEndLimit));
      return;
    }
  }

  void add_to(Summary& summary) {
    int faults = 0;
    for (const auto& [fault, count] : injector_.counts()) {
      summary.counts[fault] += count;
      faults += count;
    }
    const double useful = plan_.shape().seconds();
    say(fmt::format(
        "round {} {}: {} faults, {} attempts, {} steps again, {:.1f} s, useful {:.1f} "
        "%, {} breaks, {} leftovers",
        number_, findings_.breaks.empty() && findings_.leftovers.empty() ? "ok" : "BROKEN", faults,
        findings_.attempts, findings_.repeated_steps, wall_, 100 * useful / wall_,
        findings_.breaks.size(), findings_.leftovers.size()));
    for (const std::string& one : findings_.breaks) say("  BREAK: " + one);
    for (const std::string& one : findings_.leftovers) say("  LEFTOVER: " + one);
    if (!findings_.breaks.empty() || !findings_.leftovers.empty())
      say(
          fmt::format("  again: chaos --seed {} --first-round {} --rounds 1 --every {} "
                      "--round-seconds {}{}; its folder: {}",
                      options_.plan.seed, number_, options_.every, options_.round_seconds,
                      options_.plan.kills_only ? " --kills" : "", world_.keep_folder()));
    ++summary.rounds;
    summary.faults += faults;
    summary.breaks += static_cast<int>(findings_.breaks.size());
    summary.leftovers += static_cast<int>(findings_.leftovers.size());
    summary.attempts += findings_.attempts;
    summary.repeated_steps += findings_.repeated_steps;
    summary.useful += useful;
    summary.wall += wall_;
  }

  const Options& options_;
  const int number_;
  RoundPlan plan_;
  World world_;
  Injector injector_;
  Findings findings_;
  TimePoint start_;
  double wall_ = 0;
};

void say_summary(const Summary& summary) {
  std::string counts;
  for (const auto& [fault, count] : summary.counts)
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, to_string(fault));
  say(fmt::format("chaos: {} rounds, {} attempts, {} faults ({})", summary.rounds, summary.attempts,
                  summary.faults, counts));
  say(fmt::format(
      "chaos: {} breaks, {} leftovers, {} steps again, useful time {:.1f} % of {:.0f} s",
      summary.breaks, summary.leftovers, summary.repeated_steps,
      100 * summary.useful / summary.wall, summary.wall));
}

int run(Options options) {
  if (const std::string missing = e2e::Network::missing(); !missing.empty()) {
    say("SKIPPED: " + missing);
    return 0;
  }
  if (fake_clock_library().empty()) {
    say("SKIPPED: steps of the clock (libfaketime is not installed)");
    options.plan.clock_can_be_faked = false;
  }
  say(fmt::format("chaos: seed {}, a fault every {} s{}", options.plan.seed, options.every,
                  options.plan.kills_only ? ", kills only" : ""));
  Summary summary;
  const TimePoint start = Clock::now();
  for (int number = options.first_round;
       options.rounds == 0 ? since(start) < options.seconds : summary.rounds < options.rounds;
       ++number)
    Round(options, number).run(summary);
  say_summary(summary);
  return summary.breaks == 0 && summary.leftovers == 0 ? 0 : 1;
}

}  // namespace
}  // namespace train::chaos

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  train::chaos::Options options;
  options.plan.seed = std::random_device{}() % 1'000'000;
  double minutes = 0;
  CLI::App app{"Runs of real processes with faults from a seed.", "chaos"};
  app.add_option("--seed", options.plan.seed, "Decides rounds and faults (default: a new one)");
  app.add_option("--minutes", minutes, "Begin rounds for so long (default 5)");
  app.add_option("--every", options.every, "Seconds between two faults (default 5)");
  app.add_option(
      "--round-seconds", options.round_seconds,
      "Of one run, as long as nothing goes wrong (default 20; with --kills all the time)");
  app.add_option("--first-round", options.first_round, "The number of the first round");
  app.add_option("--rounds", options.rounds, "How many, instead of --minutes");
  app.add_flag("--kills", options.plan.kills_only,
               "Only kill -9 of a worker, a supervisor, a traind or the launcher");
  CLI11_PARSE(app, argc, argv);
  if (minutes > 0) options.seconds = minutes * 60;
  if (options.round_seconds <= 0)
    options.round_seconds = options.plan.kills_only ? options.seconds : 20;
  return train::chaos::run(options);
}
