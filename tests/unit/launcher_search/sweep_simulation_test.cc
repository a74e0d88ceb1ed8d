// A sweep of 1,000 trials whose driver dies at any record, from a seed: no trial runs twice, none
// is lost, never are there more than may run, and each checkpoint that a trial takes over is there.
// SweepDriver performs the same steps.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

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
  using Part = std::pair<int, int>;  // a trial, and which of its parts
  std::map<Part, Run> runs;
  std::set<std::string> kept;  // checkpoints
  int deaths = 0, exploits = 0;

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
    for (const auto& [part, run] : runs) count += run.alive ? 1 : 0;
    return count;
  }
  void start(int trial, const TrialState& state) {
    Run& run = runs[{trial, state.part}];
    EXPECT_EQ(run.starts++, 0) << "trial " << trial << " is started twice";
    if (state.part > 1) EXPECT_FALSE(runs[(Part{trial, state.part - 1})].alive);
    if (state.from) EXPECT_TRUE(kept.contains(state.from->checkpoint)) << state.from->checkpoint;
    if (state.from) run.reports = static_cast<int>(state.from->time);
    run.alive = true;
    EXPECT_LE(alive(), kAtOnce);
    may_die();
  }
  void resume(int trial, const TrialState& state) {
    Run& run = runs.at({trial, state.part});
    if (state.from) EXPECT_TRUE(kept.contains(state.from->checkpoint)) << state.from->checkpoint;
    EXPECT_TRUE(!run.alive && run.starts == 1 && (!run.code || *run.code == 75));
    run.code.reset();
    run.alive = true;
    EXPECT_LE(alive(), kAtOnce);
    may_die();
  }
  /// Its trials stop in good order, or die too, or come to their own end just now.
  void driver_has_died() {
    ++deaths;
    for (auto& [part, run] : runs) {
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
      const World::Run run = run_of(trial);
      // What it has reported is read again from the beginning.
      const auto& from = state_of(trial).from;
      for (int report = from ? static_cast<int>(from->time) + 1 : 1; report <= run.reports;
           ++report)
        reported(trial, report);
      const bool stops = search_.trials()[static_cast<std::size_t>(trial)].stops;
      switch (resume_step({.begun = run.starts > 0, .code = run.code}, stops)) {
        case ResumeStep::Start:
          world_.start(trial, state_of(trial));
          break;
        case ResumeStep::Resume:
          world_.resume(trial, state_of(trial));
          break;
        case ResumeStep::End:
          ended(trial, stops ? 0 : *run.code, stops);
      }
    }
  }

  /// Do one thing. Return false at the end.
  bool step() {
    if (search_.spec().search == SearchKind::Command) searcher_answers();
    for (const SearchAction& action : search_.next_actions()) {
      const bool over =
          std::visit(Overloaded{[&](const AskSearcher& ask) {
                                  asked_ = ask.trial;
                                  return false;
                                },
                                [&](const StartTrial& start) {
                                  const TrialStarted started{start.trial, start.values};
                                  world_.append(record_of(started, start.values));
                                  search_.handle(started);
                                  world_.start(start.trial, state_of(start.trial));
                                  return false;
                                },
                                [&](const StopTrial& stop) {
                                  World::Run& run = run_of(stop.trial);
                                  run.alive = false;
                                  run.code = 0;
                                  world_.may_die();
                                  ended(stop.trial, 0, true);
                                  return false;
                                },
                                [&](const ExploitTrial& one) {
                                  exploit(one.exploit);
                                  return false;
                                },
                                [](const EndSearch&) { return true; }},
                     action);
      if (over) return false;
    }
    const std::vector<int> running = search_.running();
    if (running.empty()) return true;
    const int trial = running[world_.random() % running.size()];
    World::Run& run = run_of(trial);
    EXPECT_TRUE(run.alive);
    const bool fails = trial > 10 && world_.chance(0.002), invalid = world_.chance(0.0005);
    if (run.reports < kReports && !fails && !invalid) {
      ++run.reports;
      reported(trial, run.reports);
      checkpointed(trial, run.reports);
      return true;
    }
    run.alive = false;
    run.code = fails ? 1 : invalid ? 78 : 0;
    ended(trial, *run.code, false);
    return true;
  }

  const SearchController& search() const { return search_; }

 private:
  /// It takes its time, and stops a trial now and then.
  void searcher_answers() {
    if (asked_ && world_.chance(0.3)) {
      search_.handle(TrialProposed{*asked_, {{"x", world_.chance(0.5) ? 0.25 : 0.5}}});
      asked_.reset();
    }
    const std::vector<int> running = search_.running();
    if (running.empty() || !world_.chance(0.01)) return;
    const TrialPruned pruned{running[world_.random() % running.size()]};
    if (!search_.may_stop(pruned.trial)) return;
    world_.append(record_of(pruned));
    search_.handle(pruned);
  }
  void reported(int trial, int report) {
    const TrialReported reported{trial, static_cast<double>(report), world_.value(trial, report)};
    if (search_.is_decisive(reported)) world_.append(record_of(reported));
    search_.handle(reported);
  }
  void ended(int trial, int code, bool told) {
    const TrialEnded ended{trial, *end_of(code, told), code, ""};
    world_.append(record_of(ended, search_.trials()[static_cast<std::size_t>(trial)]));
    ++run_of(trial).ends;
    search_.handle(ended);
    remove_kept();
  }

  /// Each report comes with a checkpoint; its file is there before the record is.
  void checkpointed(int trial, int report) {
    if (!search_.wants_checkpoint(trial, report)) return;
    const int part = state_of(trial).part;
    const std::string name =
        std::to_string(trial) + "." + std::to_string(part) + "-" + std::to_string(report);
    world_.kept.insert(name);
    const TrialCheckpointed event{trial, part, {1.0 * report, world_.value(trial, report), name}};
    world_.append(record_of(event));
    search_.handle(event);
    remove_kept();
  }
  void exploit(const TrialExploited& exploit) {
    world_.append(record_of(exploit, state_of(exploit.trial)));
    World::Run& before = run_of(exploit.trial);
    search_.handle(exploit);
    ++world_.exploits;
    before.alive = false;
    before.code = 0;
    world_.may_die();
    world_.start(exploit.trial, state_of(exploit.trial));
    remove_kept();
  }
  void remove_kept() {
    const std::set<std::string> needed = search_.needed_checkpoints();
    std::erase_if(world_.kept, [&](const std::string& name) { return !needed.contains(name); });
  }
  const TrialState& state_of(int trial) const {
    return search_.trials()[static_cast<std::size_t>(trial)];
  }
  World::Run& run_of(int trial) { return world_.runs[{trial, state_of(trial).part}]; }

  World& world_;
  SearchController search_;
  std::optional<int> asked_ = {};  // the searcher thinks about this trial
};

void simulate(std::uint64_t seed, const SchedulerSpec& scheduler,
              SearchKind search = SearchKind::Random) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const SearchSpec spec{
      .metric = "loss",
      .search = search,
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
  EXPECT_EQ(world.kept, std::set<std::string>{});
  if (std::holds_alternative<PbtSpec>(scheduler)) EXPECT_GT(world.exploits, 100);
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
    EXPECT_EQ(again.trials()[trial].part, at_end[trial].part);
    EXPECT_EQ(again.trials()[trial].values, at_end[trial].values);
  }
}

TEST(SweepSimulation, NoTrialIsLostOrRunsTwice) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    simulate(seed, NoScheduler{});
    simulate(seed, AshaSpec{.max_time = kReports, .divisor = 4});
    simulate(seed, MedianSpec{.grace_time = 2});
    simulate(seed, PbtSpec{.interval = 4});
    simulate(seed, NoScheduler{}, SearchKind::Command);
    simulate(seed, AshaSpec{.max_time = kReports, .divisor = 4}, SearchKind::Command);
  }
}

}  // namespace
}  // namespace train
