// A sweep of 1,000 trials whose driver dies at any record, from a seed: no trial runs twice, none
// is lost, and never are there more than may run. SweepDriver performs the same steps.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "launcher/core/search/sweep_records.h"
#include "lib/base/overloaded.h"

namespace train {
namespace {

constexpr int kTrials = 1000, kAtOnce = 8, kReports = 16;

/// The driver dies here.
struct Death {};

/// What outlives a driver: the journal, and the trials' runs.
struct World {
  struct Run {
    bool alive = false;
    int reports = 0;
    std::optional<int> code = {};  // of its end
    int starts = 0, ends = 0;
  };
  std::mt19937_64 random;
  double death = 0;  // the chance at each step
  std::vector<boost::json::object> journal;
  std::map<int, Run> runs;
  int deaths = 0;

  bool chance(double of) { return std::uniform_real_distribution(0.0, 1.0)(random) < of; }
  void may_die() {
    if (chance(death)) throw Death{};
  }
  void append(const boost::json::object& record) {
    may_die();  // before it is on disk
    journal.push_back(record);
    may_die();  // after that
  }
  int alive() const {
    int count = 0;
    for (const auto& [trial, run] : runs) count += run.alive ? 1 : 0;
    return count;
  }
  void start(int trial) {
    Run& run = runs[trial];
    EXPECT_EQ(run.starts++, 0) << "trial " << trial << " is started twice";
    run.alive = true;
    EXPECT_LE(alive(), kAtOnce);
    may_die();
  }
  void resume(int trial) {
    Run& run = runs.at(trial);
    EXPECT_TRUE(!run.alive && run.starts == 1 && (!run.code || *run.code == 75));
    run.code.reset();
    run.alive = true;
    EXPECT_LE(alive(), kAtOnce);
    may_die();
  }
  /// Its trials stop in good order, or die too, or come to their own end just now.
  void driver_has_died() {
    ++deaths;
    for (auto& [trial, run] : runs) {
      if (!run.alive) continue;
      run.alive = false;
      if (chance(0.5)) run.code = chance(0.1) ? 0 : 75;
    }
  }
  double value(int trial, int report) const {
    return trial % 97 == 0 ? std::nan("")
                           : std::fmod(trial * 0.6180339887, 1.0) + 1.0 / (report + 1);
  }
};

class Driver {
 public:
  Driver(World& world, const SearchSpec& spec) : world_(world), search_(spec) {
    for (const boost::json::object& record : world_.journal) EXPECT_TRUE(take_in(search_, record));
    for (const int trial : search_.running()) {
      const World::Run run = world_.runs[trial];
      // What it has reported is read again from the beginning.
      for (int report = 1; report <= run.reports; ++report) reported(trial, report);
      const bool stops = search_.trials()[static_cast<std::size_t>(trial)].stops;
      switch (resume_step({.begun = run.starts > 0, .code = run.code}, stops)) {
        case ResumeStep::Start:
          world_.start(trial);
          break;
        case ResumeStep::Resume:
          world_.resume(trial);
          break;
        case ResumeStep::End:
          ended(trial, stops ? 0 : *run.code, stops);
      }
    }
  }

  /// Do one thing. Return false at the end.
  bool step() {
    for (const SearchAction& action : search_.next_actions()) {
      const bool over = std::visit(Overloaded{[&](const StartTrial& start) {
                                                const TrialStarted started{start.trial};
                                                world_.append(record_of(started, {}));
                                                search_.handle(started);
                                                world_.start(start.trial);
                                                return false;
                                              },
                                              [&](const StopTrial& stop) {
                                                World::Run& run = world_.runs.at(stop.trial);
                                                run.alive = false;
                                                run.code = 0;
                                                world_.may_die();
                                                ended(stop.trial, 0, true);
                                                return false;
                                              },
                                              [](const EndSearch&) { return true; }},
                                   action);
      if (over) return false;
    }
    const std::vector<int> running = search_.running();
    if (running.empty()) return true;
    const int trial = running[world_.random() % running.size()];
    World::Run& run = world_.runs.at(trial);
    EXPECT_TRUE(run.alive);
    const bool fails = trial > 10 && world_.chance(0.002), invalid = world_.chance(0.0005);
    if (run.reports < kReports && !fails && !invalid) {
      ++run.reports;
      reported(trial, run.reports);
      return true;
    }
    run.alive = false;
    run.code = fails ? 1 : invalid ? 78 : 0;
    ended(trial, *run.code, false);
    return true;
  }

  const SearchController& search() const { return search_; }

 private:
  void reported(int trial, int report) {
    const TrialReported reported{trial, static_cast<double>(report), world_.value(trial, report)};
    if (search_.is_decisive(reported)) world_.append(record_of(reported));
    search_.handle(reported);
  }
  void ended(int trial, int code, bool told) {
    const TrialEnded ended{trial, *end_of(code, told), code, ""};
    world_.append(record_of(ended, search_.trials()[static_cast<std::size_t>(trial)]));
    ++world_.runs.at(trial).ends;
    search_.handle(ended);
  }

  World& world_;
  SearchController search_;
};

void simulate(std::uint64_t seed, const SchedulerSpec& scheduler) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const SearchSpec spec{
      .metric = "loss",
      .num_trials = kTrials,
      .max_concurrent_trials = kAtOnce,
      .parameters = {{.path = "x", .kind = ParameterKind::Uniform, .low = 0, .high = 1}},
      .scheduler = scheduler};
  World world{.random = std::mt19937_64(seed), .death = 0.02};
  std::vector<TrialState> at_end;
  for (bool over = false; !over;) {
    try {
      Driver driver(world, spec);
      while (driver.step()) {
      }
      at_end = driver.search().trials();
      EXPECT_EQ(std::ssize(at_end), driver.search().trials_in_all());
      over = true;
    } catch (const Death&) {
      world.driver_has_died();
      // Most deaths come at once, so that the sweep is made anew again and again.
      if (world.deaths > 120) world.death = 0;
    }
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(world.deaths, 100);
  EXPECT_GE(std::ssize(at_end), kTrials) << "no trial is lost";
  EXPECT_EQ(world.alive(), 0);
  std::map<std::int64_t, int> ends;
  for (const boost::json::object& record : world.journal)
    if (record.at("event") == "trial_ended") ++ends[record.at("trial").as_int64()];
  for (std::size_t trial = 0; trial < at_end.size(); ++trial) {
    EXPECT_TRUE(at_end[trial].ended);
    EXPECT_EQ(ends[static_cast<std::int64_t>(trial)], 1) << "trial " << trial;
  }
  // The journal alone says the same.
  SearchController again(spec);
  for (const boost::json::object& record : world.journal) ASSERT_TRUE(take_in(again, record));
  for (std::size_t trial = 0; trial < at_end.size(); ++trial) {
    EXPECT_EQ(again.trials()[trial].ended, at_end[trial].ended);
    EXPECT_EQ(again.trials()[trial].best, at_end[trial].best);
  }
}

TEST(SweepSimulation, NoTrialIsLostOrRunsTwice) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    simulate(seed, NoScheduler{});
    simulate(seed, AshaSpec{.max_time = kReports, .divisor = 4});
    simulate(seed, MedianSpec{.grace_time = 2});
  }
}

}  // namespace
}  // namespace train
