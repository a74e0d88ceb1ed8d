// A run in an object store, seen by launchers on two machines.
#include "launcher/cluster/checkpoints/remote_run.h"

#include <atomic>
#include <boost/json.hpp>
#include <mutex>

#include "launcher/cluster/run/run_record.h"
#include "launcher/cluster/run/run_registry.h"
#include "lib/base/host.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/storage_module.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

class RemoteRunTest : public testing::Test {
 protected:
  void SetUp() override {
    spec_.run_config.name = "vit";
    spec_.run_config.storage_path = storage_;
    machine("a");
  }
  /// From now on, act as another machine with its own files.
  void machine(const std::string& name) const {
    ::setenv("XDG_STATE_HOME", (temp_.path() + "/" + name).c_str(), 1);
  }
  Result<std::unique_ptr<RunRecord>> open(bool force = false) const {
    return RunRecord::open(spec_, {.force = force, .build = "test"});
  }
  static void write(const RunRecord& record, const std::string& name, const std::string& text,
                    std::ios::openmode mode = std::ios::out) {
    const std::string path = record.folder().path() + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, mode) << text;
  }
  /// Start the thread that puts what is new, and return after its first round.
  void begin(RunRecord& record) {
    record.remote()->begin(
        record.folder(), record.generation(),
        [this](const std::string& text) {
          const std::lock_guard lock(mutex_);
          warnings_.push_back(text);
        },
        [this](const Error& error) {
          const std::lock_guard lock(mutex_);
          fenced_ = error.code;
        });
  }
  bool comes(const std::string& key) {
    return fakes::eventually([&] { return objects_->has(key); });
  }

  TempFolder temp_;
  const std::string storage_ =
      std::string("s3://bucket/") + testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string url_ = storage_ + "/vit";
  std::shared_ptr<fakes::MemoryObjects> objects_ = fakes::objects_at(url_);
  JobSpec spec_;
  std::mutex mutex_;
  std::optional<Errc> fenced_;
  std::vector<std::string> warnings_;
};

TEST_F(RemoteRunTest, AStoreThatReplacesWhatItMustKeepIsRefused) {
  objects_->set_unconditional();

  EXPECT_EQ(open().error(),
            (Error{Errc::InvalidArgument,
                   "'" + url_ + "' lets a conditional write replace an object that exists",
                   "use a server that honours `If-None-Match: *`"}));
}

TEST_F(RemoteRunTest, ANewRunIsInTheStoreBeforeItsLauncherGoesOn) {
  const auto record = open();

  ASSERT_TRUE(record) << record.error().describe();
  EXPECT_EQ((*record)->location(), url_);
  EXPECT_EQ((*record)->folder().path(),
            temp_.path() + "/a/trainrun/remote/s3/bucket/" + storage_.substr(12) + "/vit");
  EXPECT_FALSE((*record)->resumed());
  EXPECT_EQ((*record)->generation(), Generation{1});
  EXPECT_TRUE(*(*record)->remote()->exists());
  EXPECT_EQ(objects_->get("owner-key"), (*record)->owner_key());
  EXPECT_EQ(objects_->get("probe-1"), (*record)->identity().storage_marker);
  EXPECT_EQ(location_of_run((*record)->folder()), url_);
  EXPECT_TRUE((*record)->check_owner());
}

TEST_F(RemoteRunTest, TheNextLauncherOnTheSameMachineGoesOn) {
  auto record = open();
  ASSERT_TRUE(record);
  const std::string run_id = (*record)->run_id();
  ASSERT_TRUE((*record)->journal().append({{{"event", "attempt_started"}, {"attempt", 4}}}, "t"));
  record->reset();

  record = open();

  ASSERT_TRUE(record) << record.error().describe();
  EXPECT_TRUE((*record)->resumed());
  EXPECT_EQ((*record)->run_id(), run_id);
  EXPECT_EQ((*record)->generation(), Generation{2});
  EXPECT_EQ((*record)->start().first_attempt, Attempt{5});
  EXPECT_EQ(objects_->get("probe-2"), (*record)->identity().storage_marker);
}

TEST_F(RemoteRunTest, OneThatHasFinishedIsRefusedAndOneThatFailedGoesOn) {
  ASSERT_TRUE(open());
  objects_->put("exit.json", R"({"code": 0})");
  const auto finished = open();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().message, "the run vit has finished: " + url_);

  objects_->put("exit.json", R"({"code": 1})");
  EXPECT_TRUE(open());
  EXPECT_FALSE(objects_->has("exit.json"));
}

TEST_F(RemoteRunTest, WhatIsHereOfARunThatIsNoLongerInTheStoreGoes) {
  auto record = open();
  ASSERT_TRUE(record);
  write(**record, "metrics.jsonl", "old\n");
  write(**record, "attempts/000/old", "old");
  const std::string folder = (*record)->folder().path();
  record->reset();
  for (const std::string& key : objects_->keys()) objects_->remove(key);

  record = open();

  ASSERT_TRUE(record) << record.error().describe();
  EXPECT_FALSE((*record)->resumed());
  EXPECT_FALSE(std::filesystem::exists(folder + "/metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/attempts"));
}

TEST_F(RemoteRunTest, ADefaultNameThatIsTakenInTheStoreGetsASuffix) {
  const auto first = RunRecord::open(spec_, {.unique_name = true, .build = "test"});
  ASSERT_TRUE(first);
  const auto second = RunRecord::open(spec_, {.unique_name = true, .build = "test"});
  ASSERT_TRUE(second) << second.error().describe();
  EXPECT_EQ((*first)->name(), "vit");
  EXPECT_EQ((*second)->name(), "vit-2");
  EXPECT_EQ((*second)->location(), url_ + "-2");
}

TEST_F(RemoteRunTest, AtItsEndEverythingButWhatIsOnlyOfUseHereIsInTheStore) {
  auto record = open();
  ASSERT_TRUE(record);
  write(**record, "metrics.jsonl", "a\nb\nhalf of c");
  write(**record, "launcher.log", "log");
  write(**record, "attempts/000/ranks/0000/stdout.log", "out");
  write(**record, "checkpoints/never", "x");
  write(**record, ".hidden", "x");
  write(**record, "code/0123/env.py", "a secret of the job's");
  write(**record, "exit.json", R"({"code": 0})");
  write(**record, "large", std::string((1 << 20) + 1, 'l'));
  begin(**record);

  ASSERT_TRUE((*record)->remote()->finish());

  EXPECT_EQ(objects_->get("metrics/000001-000001.jsonl"), "a\nb\n");
  EXPECT_EQ(objects_->get("launcher.log"), "log");
  EXPECT_EQ(objects_->get("attempts/000/ranks/0000/stdout.log"), "out");
  EXPECT_EQ(objects_->get("exit.json"), R"({"code": 0})");
  EXPECT_EQ(objects_->get("large").size(), (1u << 20) + 1);
  for (const char* key : {"checkpoints/never", ".hidden", "code/0123/env.py", "events.jsonl",
                          "metrics.jsonl", ".url", "owner.json", "probe-1"})
    EXPECT_FALSE(objects_->has(key)) << key;
  EXPECT_EQ((*(*record)->remote()->exit_json()), R"({"code": 0})");
}

TEST_F(RemoteRunTest, MetricsAreAddedInSegmentsAndTheNextLauncherBeginsAnew) {
  auto record = open();
  ASSERT_TRUE(record);
  write(**record, "metrics.jsonl", "a\n");
  begin(**record);
  ASSERT_TRUE(comes("metrics/000001-000001.jsonl"));
  write(**record, "metrics.jsonl", "b\n", std::ios::app);
  ASSERT_TRUE((*record)->remote()->finish());
  EXPECT_EQ(objects_->get("metrics/000001-000001.jsonl"), "a\n");
  EXPECT_EQ(objects_->get("metrics/000001-000002.jsonl"), "b\n");
  record->reset();

  record = open();
  ASSERT_TRUE(record);
  begin(**record);
  ASSERT_TRUE((*record)->remote()->finish());

  EXPECT_EQ(objects_->keys("metrics/"), std::vector<std::string>{"metrics/000002-000001.jsonl"});
  EXPECT_EQ(objects_->get("metrics/000002-000001.jsonl"), "a\nb\n");
}

TEST_F(RemoteRunTest, OneThatIsRefusedDoesNotCostTheNextWhatIsOnlyHere) {
  auto record = open();
  ASSERT_TRUE(record);
  write(**record, "metrics.jsonl", "a\n");
  begin(**record);
  ASSERT_TRUE(comes("metrics/000001-000001.jsonl"));
  record->reset();
  const std::string metrics = run_path(storage_, "vit") + "/metrics.jsonl";
  std::ofstream(metrics, std::ios::app) << "b\n";  // the launcher died before it was uploaded

  record = open();  // refused before it began, such as because of its spec
  ASSERT_TRUE(record);
  record->reset();
  record = open();
  ASSERT_TRUE(record);

  EXPECT_EQ(text_of(metrics), "a\nb\n");
}

// However large they are: a follower on another machine would give new output an old time.
TEST_F(RemoteRunTest, TheTimesOfOutputComeWithEachPieceOfItAndAfterIt) {
  const std::string log = "attempts/000/ranks/0000/stdout.log";
  const std::string times = "attempts/000/output.times";
  const std::string large((1 << 20) + 1, '\n');
  auto record = open();
  ASSERT_TRUE(record);
  write(**record, log, "a\n");
  write(**record, times, large);
  write(**record, "attempts/000/large", large);
  std::vector<std::string> put;
  auto& store = dynamic_cast<fakes::MemoryObjectStore&>((*record)->remote()->store());
  store.before_each([&](const std::string& operation) {
    const std::lock_guard lock(mutex_);
    if (operation.starts_with("create attempts/")) put.push_back(operation.substr(7));
  });
  const auto puts = [&] {
    const std::lock_guard lock(mutex_);
    return put;
  };
  begin(**record);
  ASSERT_TRUE(fakes::eventually([&] { return objects_->has(times); }));
  std::vector<std::string> expected{"attempts/000/large", log, times};
  EXPECT_EQ(puts(), expected);

  write(**record, "attempts/000/large", "x\n", std::ios::app);
  write(**record, times, "x\n", std::ios::app);
  write(**record, log, "b\n", std::ios::app);

  ASSERT_TRUE(fakes::eventually([&] { return objects_->get(times) == large + "x\n"; }));
  EXPECT_EQ(objects_->get(log), "a\nb\n");
  EXPECT_EQ(objects_->get("attempts/000/large"), large) << "in one of the next rounds";
}

TEST_F(RemoteRunTest, AnotherMachineFetchesTheTimesOfOutputAfterIt) {
  ASSERT_TRUE(open());
  objects_->put("attempts/000/output.times", "1 0 1 0\n");
  objects_->put("attempts/000/ranks/0000/stdout.log", "a\n");
  objects_->put("tb/events", "tb");
  machine("b");
  std::string last;
  objects_->before_each([&](const std::string& operation) {
    if (operation.starts_with("get ")) last = operation;
  });

  ASSERT_TRUE(find_run(url_, ""));

  EXPECT_EQ(last, "get attempts/000/output.times");
  objects_->before_each({});
}

TEST_F(RemoteRunTest, MetricsStayWhenTheAnswerThatTheyArrivedIsLost) {
  auto record = open();
  ASSERT_TRUE(record);
  write(**record, "metrics.jsonl", "a\n");
  auto& store = dynamic_cast<fakes::MemoryObjectStore&>((*record)->remote()->store());
  bool lost = false;
  store.before_each([&](const std::string& operation) {
    if (operation.starts_with("put metrics/") && !lost)
      lost = true, store.at(1, fakes::Fault::AnswerIsLost);
  });
  begin(**record);
  ASSERT_TRUE(comes("metrics/000001-000001.jsonl"));
  write(**record, "metrics.jsonl", "b\n", std::ios::app);

  ASSERT_TRUE((*record)->remote()->finish());

  EXPECT_EQ(objects_->keys("metrics/"), std::vector<std::string>{"metrics/000001-000001.jsonl"});
  EXPECT_EQ(objects_->get("metrics/000001-000001.jsonl"), "a\nb\n");
}

TEST_F(RemoteRunTest, TheOneWhoRunsItSaysThatItLives) {
  auto record = open();
  ASSERT_TRUE(record);
  begin(**record);

  ASSERT_TRUE(comes("owner.json"));

  const auto owner = boost::json::parse(objects_->get("owner.json")).as_object();
  EXPECT_EQ(owner.at("host").as_string(), host_name());
  EXPECT_EQ(owner.at("pid").as_int64(), ::getpid());
  EXPECT_EQ(owner.at("folder").as_string(), (*record)->folder().path());
  EXPECT_EQ(owner.at("beat").to_number<int>(), 1);
  EXPECT_LT(std::chrono::system_clock::now() - parse_utc(std::string(owner.at("at").as_string())),
            std::chrono::minutes(5));
  ASSERT_TRUE((*record)->remote()->finish());
  EXPECT_EQ(warnings_, std::vector<std::string>{});  // such as that nobody has asked it to stop
}

TEST_F(RemoteRunTest, ItSaysThatItLivesHoweverLongAnUploadTakes) {
  auto record = open();
  ASSERT_TRUE(record);
  write(**record, "spec.yaml", "x");
  write(**record, "exit.json", "{}");
  const auto beats = [this] {
    return boost::json::parse(objects_->get("owner.json")).at("beat").to_number<int>();
  };
  std::atomic<int> uploads_outlived = 0;
  auto& store = dynamic_cast<fakes::MemoryObjectStore&>((*record)->remote()->store());
  store.before_each([&](const std::string& operation) {
    const bool first = operation == "create spec.yaml", last = operation == "create exit.json";
    if (!first && !last) return;
    const int before = beats();
    if (fakes::eventually([&] { return beats() > before; })) ++uploads_outlived;
  });

  begin(**record);
  ASSERT_TRUE(fakes::eventually([&] { return uploads_outlived == 1; }));
  ASSERT_TRUE((*record)->remote()->finish());

  EXPECT_EQ(uploads_outlived, 2);
  EXPECT_TRUE(objects_->has("spec.yaml"));
  EXPECT_TRUE(objects_->has("exit.json"));
  EXPECT_FALSE(objects_->has("owner.json"));
}

TEST_F(RemoteRunTest, OneThatIsReplacedDuringItsLastUploadsLeavesTheRestToTheOther) {
  auto record = open();
  ASSERT_TRUE(record);
  auto& store = dynamic_cast<fakes::MemoryObjectStore&>((*record)->remote()->store());
  std::atomic<bool> replaced = false;
  store.before_each([&](const std::string& operation) {
    if (operation != "create run.json" || replaced.exchange(true)) return;
    machine("b");
    const auto second = open(/*force=*/true);
    ASSERT_TRUE(second) << second.error().describe();
    objects_->put("owner.json", "{}");
    EXPECT_TRUE(fakes::eventually([&] {
      const std::lock_guard lock(mutex_);
      return fenced_ == Errc::Fenced;
    }));
  });
  begin(**record);
  ASSERT_TRUE(comes("owner.json"));
  write(**record, "run.json", "{}");
  write(**record, "exit.json", "{}");

  EXPECT_TRUE((*record)->remote()->finish());

  EXPECT_TRUE(replaced);
  EXPECT_FALSE(objects_->has("exit.json"));
  EXPECT_TRUE(objects_->has("owner.json"));
}

TEST_F(RemoteRunTest, ARequestToStopReachesTheWorkingFolder) {
  auto record = open();
  ASSERT_TRUE(record);
  const auto elsewhere = RemoteRun::open(url_);
  ASSERT_TRUE(elsewhere);
  ASSERT_TRUE((*elsewhere)->ask_to_stop());

  begin(**record);

  const std::string stop = (*record)->folder().path() + "/.stop";
  EXPECT_TRUE(fakes::eventually([&] { return std::filesystem::exists(stop); }));
  EXPECT_FALSE(objects_->has("stop"));
}

TEST_F(RemoteRunTest, ARequestToStopAnEarlierLauncherDoesNotStopTheNext) {
  auto record = open();
  ASSERT_TRUE(record);
  record->reset();
  objects_->put("stop", "stop\n");  // the launcher died before it took it

  record = open();
  ASSERT_TRUE(record);
  begin(**record);
  ASSERT_TRUE(comes("owner.json"));
  ASSERT_TRUE((*record)->remote()->finish());

  EXPECT_FALSE(std::filesystem::exists((*record)->folder().path() + "/.stop"));
  EXPECT_FALSE(objects_->has("stop"));
}

TEST_F(RemoteRunTest, ALauncherThatWasReplacedHearsOfIt) {
  auto first = open();
  ASSERT_TRUE(first);
  machine("b");
  const auto second = open(/*force=*/true);
  ASSERT_TRUE(second) << second.error().describe();
  EXPECT_EQ((*second)->generation(), Generation{2});
  EXPECT_EQ((*second)->run_id(), (*first)->run_id());

  EXPECT_EQ((*first)->check_owner().error().code, Errc::Fenced);
  begin(**first);

  EXPECT_TRUE(fakes::eventually([&] {
    const std::lock_guard lock(mutex_);
    return fenced_ == Errc::Fenced;
  }));
  EXPECT_FALSE(objects_->has("owner.json"));
  EXPECT_TRUE((*second)->check_owner());
}

TEST_F(RemoteRunTest, AnotherMachineFindsAllOfIt) {
  auto record = open();
  ASSERT_TRUE(record);
  ASSERT_TRUE((*record)->put_specs("command: x\n", "command: [x]\n"));
  write(**record, "metrics.jsonl", "a\n");
  write(**record, "launcher.log", "log");
  write(**record, "attempts/000/cause.json", "{}");
  write(**record, "tb/events", "tb");
  begin(**record);
  ASSERT_TRUE((*record)->remote()->finish());
  const std::string journal = text_of((*record)->folder().journal());
  machine("b");

  const auto found = find_run(url_ + "/", "/nowhere");

  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_EQ(*found, temp_.path() + "/b/trainrun/remote/s3/bucket/" + storage_.substr(12) + "/vit");
  const RunFolder folder(*found);
  EXPECT_EQ(text_of(folder.journal()), journal);
  EXPECT_EQ(text_of(folder.metrics()), "a\n");
  EXPECT_EQ(text_of(folder.spec()), "command: x\n");
  EXPECT_EQ(text_of(*found + "/launcher.log"), "log");
  EXPECT_EQ(text_of(*found + "/attempts/000/cause.json"), "{}");
  EXPECT_EQ(text_of(*found + "/tb/events"), "tb");
  EXPECT_EQ(location_of_run(folder), url_);

  objects_->put("attempts/../../escape", "x");
  objects_->remove("launcher.log");
  ASSERT_TRUE(find_run(url_, ""));
  EXPECT_FALSE(std::filesystem::exists(*found + "/launcher.log"));
  EXPECT_EQ(find_run(storage_ + "/other", "").error().message,
            "no run is in '" + storage_ + "/other'");
  EXPECT_EQ(*find_run("vit", storage_), *found);
}

TEST_F(RemoteRunTest, AnotherMachineFindsMetricsOfAnySize) {
  ASSERT_TRUE(open());
  const std::string metrics = std::string(65 << 20, 'm') + "\n";
  objects_->put("metrics/000001-000001.jsonl", metrics);
  objects_->put("progress.csv", metrics);
  machine("b");

  const auto found = find_run(url_, "");

  ASSERT_TRUE(found) << found.error().describe();
  EXPECT_TRUE(text_of(RunFolder(*found).metrics()) == metrics);
  EXPECT_TRUE(text_of(*found + "/progress.csv") == metrics);
}

/// Tests the messages and the result when a launcher takes over a run of another machine.
class TakingOver : public RemoteRunTest {
 protected:
  void SetUp() override {
    RemoteRunTest::SetUp();
    ASSERT_TRUE(open());
    objects_->put("owner.json", R"({"host":"node-b","folder":"/f","started":"noon","beat":1})");
  }
  Result<Unit> claim(const std::function<void()>& meanwhile, bool force = false) {
    machine("b");
    auto run = RemoteRun::open(url_);
    if (!run) return run.error();
    const RunFolder folder(run_path(storage_, "vit"));
    return (*run)->claim({host_name(), ::getpid(), "now"}, folder, force,
                         [&](const std::string& text) {
                           said_ = text;
                           meanwhile();
                         });
  }
  std::string said_;
};

TEST_F(TakingOver, OneThatLivesKeepsItsRun) {
  objects_->put("stop", "stop\n");
  const auto claimed = claim([this] { objects_->put("owner.json", R"({"beat":2})"); });

  ASSERT_FALSE(claimed);
  EXPECT_EQ(claimed.error().code, Errc::AlreadyExists);
  EXPECT_EQ(claimed.error().message, url_ + " is held by a train-run on node-b (since noon)");
  EXPECT_EQ(said_,
            "a train-run on node-b (since noon) owned this run: checking for 15 s whether it is "
            "still alive");
  EXPECT_TRUE(objects_->has("stop"));
}

TEST_F(TakingOver, AnOwnerThatCannotBeReadMayLive) {
  objects_->put("owner.json", std::string(65 << 20, 'x'));
  EXPECT_FALSE(claim([] {}));
}

TEST_F(TakingOver, OneThatEndsMeanwhileLeavesIt) {
  EXPECT_TRUE(claim([this] { objects_->remove("owner.json"); }));
  EXPECT_NE(said_, "");
}

TEST_F(TakingOver, ByForceNobodyIsWaitedFor) {
  EXPECT_TRUE(claim([] {}, /*force=*/true));
  EXPECT_EQ(said_, "");
}

TEST_F(TakingOver, AnEarlierLauncherOfTheSameFolderIsDead) {
  machine("b");
  objects_->put("owner.json", fmt::format(R"({{"host":"{}","folder":"{}"}})", host_name(),
                                          run_path(storage_, "vit")));
  EXPECT_TRUE(claim([] {}));
  EXPECT_EQ(said_, "");
}

}  // namespace
}  // namespace train
