// train::WarmTrainer with a train-run that the test plays (fake_train_run.py).
#include <gtest/gtest.h>
#include <signal.h>
#include <train/warm_trainer.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sdk/trainer/resolved_spec.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class Told final : public Callback {
 public:
  void finish_training(const std::string& error) override { ends.push_back(error); }
  Words ends;
};

class WarmTrainers : public testing::Test {
 protected:
  WarmTrainers() {
    char made[] = "/tmp/warm-XXXXXX";
    folder = ::mkdtemp(made);
    ::setenv("FAKE_LOG", (folder / "log").c_str(), 1);
  }
  ~WarmTrainers() override { fs::remove_all(folder); }

  WarmTrainer trainer(Dict spec = {}, const fs::path& logdir = {}, Words arguments = {}) const {
    spec.insert({"run_config.storage_path", (folder / "runs").string()});
    return WarmTrainer(
        std::move(spec),
        {.logdir = logdir,
         .trainer = {.program = kFake, .arguments = std::move(arguments), .show_output = false}});
  }
  /// Return what the runs, or the commands, were told.
  std::vector<Dict> logged(const std::string& kind = "run") const {
    std::ifstream log(folder / "log");
    std::vector<Dict> entries;
    for (std::string line; std::getline(log, line);)
      if (Dict entry = parse_json(line).as<Dict>(); entry.contains(kind)) entries.push_back(entry);
    return entries;
  }
  template <class T>
  std::vector<T> of_runs(const std::string& member) const {
    std::vector<T> values;
    for (const Dict& run : logged()) values.push_back(run.at(member).as<T>());
    return values;
  }
  pid_t first_worker() const { return logged().at(0).at("worker").as<int>(); }
  static bool lives(pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(stat, text);
    const std::size_t name = text.rfind(") ");
    return name != std::string::npos && text.at(name + 2) != 'Z';
  }
  static bool ends(pid_t pid) {
    return fakes::eventually([pid] { return !lives(pid); });
  }
  static std::string refusal(const std::function<void()>& call) {
    try {
      call();
    } catch (const Failure& why) {
      return why.kind() + ": " + why.what();
    }
    return "";
  }

  static constexpr const char* kFake = TRAIN_SOURCE_DIR "/tests/unit/sdk_trainer/fake_train_run.py";
  fs::path folder;
};

TEST_F(WarmTrainers, RunByTheSameWorker) {
  WarmTrainer warm = trainer({{"train_loop_config", Dict{{"lr", 1}}}});
  EXPECT_EQ(warm.latest_run_dir(), std::nullopt);
  EXPECT_EQ(warm.run().metrics, (Dict{{"lr", 1}}));
  EXPECT_EQ(warm.run(Dict{{"lr", 2}}).metrics, (Dict{{"lr", 2}}));
  EXPECT_EQ(warm.run(Dict{}).metrics, Dict{});

  EXPECT_EQ(warm.latest_run_dir(), warm.logdir() / "run_003");
  EXPECT_EQ(of_runs<std::string>("workers_of"), (Words{"", "run_001", "run_002"}));
  EXPECT_EQ(of_runs<bool>("keep"), (std::vector{true, true, true}));
  EXPECT_EQ(of_runs<int>("worker"), std::vector<int>(3, first_worker()));
  EXPECT_TRUE(lives(first_worker()));
}

TEST_F(WarmTrainers, AreInAFolderThatIsCalledAfterTheTimeOrTheName) {
  const fs::path first = trainer().logdir();
  EXPECT_EQ(first.parent_path(), folder / "runs");
  EXPECT_TRUE(first.filename().string().starts_with("warm_20")) << first;
  EXPECT_NE(trainer().logdir(), first);
  EXPECT_EQ(trainer({{"run_config", Dict{{"name", "my job"}}}}).logdir(),
            folder / "runs" / "my job");
}

TEST_F(WarmTrainers, NeverUseANumberAgain) {
  for (const char* name : {"run_002", "_solo-run_006", "run_x", "run_1", "other"})
    fs::create_directories(folder / "mine" / name);
  WarmTrainer warm = trainer({}, folder / "mine");
  EXPECT_EQ(warm.run().path, folder / "mine/run_007");
  fs::rename(folder / "mine/run_007", folder / "gone");
  EXPECT_EQ(warm.run().path, folder / "mine/run_008");
}

TEST_F(WarmTrainers, RefuseAnObjectStoreAndAWrongSpec) {
  EXPECT_EQ(refusal([&] { trainer({}, "s3://bucket/runs").run(); }),
            "invalid_argument: logdir is 's3://bucket/runs': the runs of a WarmTrainer are "
            "numbered in a folder, and cannot be in an object store (give a logdir)");
  EXPECT_NE(refusal([&] { trainer({{"run_config.storage_path", "gs://bucket"}}).run(); }), "");
  EXPECT_THROW(trainer({{"wrong", 1}}).run(), SpecError);
}

TEST_F(WarmTrainers, StartNewWorkersAfterAFailure) {
  WarmTrainer warm = trainer();
  warm.run();
  EXPECT_THROW(warm.run(Dict{{"end", "failed"}}), WorkerGroupError);
  EXPECT_THROW(warm.run(Dict{{"lose", true}}), ControllerError);
  warm.run();
  EXPECT_EQ(of_runs<std::string>("workers_of"), (Words{"", "run_001", "", ""}));
  EXPECT_TRUE(ends(first_worker()));
}

TEST_F(WarmTrainers, KeepTheWorkersIfARunIsRefused) {
  WarmTrainer warm = trainer();
  warm.run();
  EXPECT_THROW(warm.run(Dict{{"end", "refused"}}), SpecError);
  EXPECT_EQ(warm.latest_run_dir(), warm.logdir() / "run_001");
  EXPECT_EQ(warm.run().path, warm.logdir() / "run_003");
  EXPECT_EQ(of_runs<bool>("taken"), (std::vector{false, true}));
}

TEST_F(WarmTrainers, ReplaceAWorkerThatHasDied) {
  WarmTrainer warm = trainer();
  warm.run();
  ::kill(first_worker(), SIGKILL);
  warm.run();
  EXPECT_EQ(of_runs<std::string>("workers_of"), (Words{"", "run_001"}));
  EXPECT_EQ(of_runs<bool>("taken"), (std::vector{false, false}));
}

TEST_F(WarmTrainers, DoOneRunAtATime) {
  WarmTrainer warm = trainer();
  Trainer first = warm.next(Dict{{"hold", true}});
  Rounds rounds = first.iterate();
  EXPECT_EQ(rounds.next()->number, 1u);
  EXPECT_EQ(refusal([&] { warm.next(); }),
            "invalid_argument: run_001 of this WarmTrainer has not ended: take its rounds to their "
            "end, or call its result(true)");
  EXPECT_EQ(first.result(/*force=*/true)->outcome, "succeeded");
  EXPECT_EQ(warm.run().path, warm.logdir() / "run_002");
  EXPECT_EQ(of_runs<bool>("taken"), (std::vector{false, true}));
}

TEST_F(WarmTrainers, NeedNoCallOfResultAfterTheRounds) {
  const auto every = std::make_shared<Told>(), one = std::make_shared<Told>();
  WarmTrainer warm = trainer();
  warm.add_callback(every);
  {
    Trainer first = warm.next({}, {.callbacks = {one}});
    for (const Round& round : first.iterate()) EXPECT_EQ(round.number, 1u);
  }
  Trainer second = warm.next();
  for (const Round& round : second.iterate()) EXPECT_EQ(round.number, 1u);
  warm.run();
  EXPECT_EQ(of_runs<bool>("taken"), (std::vector{false, true, true}));
  EXPECT_EQ(every->ends, (Words{"", "", ""}));
  EXPECT_EQ(one->ends, Words{""});
}

TEST_F(WarmTrainers, LeaveWhatFollowsTheProgramItsOwn) {
  WarmTrainer warm = trainer({}, {}, {"--", "./train", "--set"});
  warm.run(Dict{{"lr", 3}}, {.resume_from_checkpoint = "/a/${HOME}"});
  EXPECT_EQ(logged().at(0).at("config").as<Dict>(), (Dict{{"lr", 3}}));
  EXPECT_EQ(logged().at(0).at("resume"), Value("/a/$${HOME}"));
}

TEST_F(WarmTrainers, EndTheirWorkersByShutdown) {
  WarmTrainer warm = trainer();
  warm.run();
  warm.shutdown(std::chrono::milliseconds(2500));
  warm.shutdown();
  EXPECT_TRUE(ends(first_worker()));
  EXPECT_EQ(logged("command").at(0).at("command").as<Dict>(),
            (Dict{{"command", "release"}, {"patience_ms", 2500}}));
  EXPECT_EQ(refusal([&] { warm.run(); }),
            "unavailable: this WarmTrainer is not active: it was shut down");
}

TEST_F(WarmTrainers, EndTheirWorkersWhenTheyGo) {
  trainer().run();
  EXPECT_TRUE(ends(first_worker()));
  EXPECT_EQ(logged("command").at(0).at("command").as<Dict>(),
            (Dict{{"command", "release"}, {"patience_ms", 5000}}));
}

TEST_F(WarmTrainers, StopARunThatGoesOnBeforeTheyEnd) {
  std::optional<WarmTrainer> warm = trainer();
  Trainer run = warm->next(Dict{{"hold", true}});
  run.start();
  warm.reset();
  EXPECT_TRUE(ends(first_worker()));
  EXPECT_EQ(logged("command").at(0).at("command").as<Dict>(), (Dict{{"command", "stop"}}));
}

TEST_F(WarmTrainers, BeginNothingOnceTheyAreShutDown) {
  WarmTrainer warm = trainer();
  Trainer run = warm.next();
  warm.shutdown();
  EXPECT_EQ(refusal([&] { run.fit(); }),
            "unavailable: this WarmTrainer is not active: it was shut down");
}

TEST_F(WarmTrainers, KeepNobodyWithoutWorkers) {
  WarmTrainer warm = trainer({{"scaling_config.num_workers", 0}});
  warm.run();
  warm.run();
  EXPECT_EQ(of_runs<bool>("keep"), (std::vector{false, false}));
}

TEST(ResolvedSpec, ValuesAreFoundBySection) {
  constexpr const char* kSpec =
      "name: job-1  # default\nenv:\n  storage_path: none  # --set\nrun_config:\n"
      "  callbacks:  # default\n    - {a: b}\n"
      "  storage_path: \"/a # \\\"b\\\"\"  # job.yaml:3\n  user: null  # default\nend: 1  # "
      "--set\n";
  using trainer::SpecValue, trainer::value_of;
  EXPECT_EQ(value_of(kSpec, "", "name"), (SpecValue{"job-1", false}));
  EXPECT_EQ(value_of(kSpec, "run_config", "storage_path"), (SpecValue{"/a # \"b\"", true}));
  EXPECT_EQ(value_of(kSpec, "run_config", "user"), (SpecValue{"null", false}));
  EXPECT_EQ(value_of(kSpec, "", "end"), (SpecValue{"1", true}));
  EXPECT_EQ(value_of(kSpec, "env", "user"), SpecValue());
  EXPECT_EQ(value_of(kSpec, "", "user"), SpecValue());
}

}  // namespace
}  // namespace train
