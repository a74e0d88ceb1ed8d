// Runs with an object store as storage_path: real servers, real processes, and faults between them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <csignal>
#include <filesystem>
#include <sstream>

#include "lib/storage/object_store.h"
#include "tests/e2e/object_server.h"

namespace train::e2e {
namespace {

class StoreRun : public ::testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    if (!server.available()) GTEST_SKIP() << "SKIPPED: no server is installed";
    auto opened = open_object_store(run_location, {.environment = server.environment()});
    ASSERT_TRUE(opened) << opened.error().describe();
    store = *opened;
  }
  void TearDown() override { store.reset(); }

  /// Return a job of two workers; rank 0's checkpoint of each epoch holds state.json.
  std::string job(const std::string& config, const std::string& run_config = "",
                  const std::string& more = "") const {
    return cluster.write(
        "job.yaml",
        fmt::format("name: job\ncommand: [{}]\n"
                    "train_loop_config: {{mode: epochs, {}}}\n"
                    "scaling_config: {{num_workers: 2, resources_per_worker: {{CPU: 0}}}}\n"
                    "run_config:\n  storage_path: {}\n{}{}",
                    program("sdk_worker"), config, server.location("runs"), run_config, more));
  }
  /// Use the machine that has its state in `state`.
  StartOptions on(const std::string& state = "home") const {
    StartOptions options;
    options.env = server.environment();
    options.env["XDG_STATE_HOME"] = cluster.path(state);
    return options;
  }
  /// Return what a command printed. Fail the test unless it ended with `code`.
  std::string said(const std::vector<std::string>& words, int code,
                   const std::string& state = "home") {
    Process& process = cluster.train_run(words, on(state));
    EXPECT_EQ(process.wait(), code) << process.out() << process.err();
    return process.out() + process.err();
  }
  /// Return a job in which both ranks begin this epoch once release() is called.
  std::string held_at(int epoch) const {
    return job(
        fmt::format("epochs: 4, hold_at: [{}], hold_file: '{}'", epoch, cluster.path("hold")));
  }
  void release(int epoch) const { cluster.write(fmt::format("hold-0-{}", epoch), ""); }
  bool committed(int number) const {
    return store->get(fmt::format("checkpoints/checkpoint_{:06}/.manifest.json", number), 1 << 20)
        .has_value();
  }
  std::vector<std::string> keys(const std::string& folder) const {
    std::vector<std::string> found;
    const auto objects = store->list(folder);
    for (const StoredObject& object : *objects) found.push_back(object.key);
    return found;
  }

  Cluster cluster;
  ObjectServer server{cluster, GetParam()};
  const std::string run_location = server.location("runs/job");
  std::shared_ptr<ObjectStore> store;
};

class S3Run : public StoreRun {};

INSTANTIATE_TEST_SUITE_P(, StoreRun,
                         ::testing::Values(StoreKind::S3, StoreKind::Gcs, StoreKind::Hdfs),
                         [](const auto& kind) { return name_of(kind.param); });
INSTANTIATE_TEST_SUITE_P(, S3Run, ::testing::Values(StoreKind::S3),
                         [](const auto& kind) { return name_of(kind.param); });

/// Return the niceness of each thread of a process.
std::vector<int> niceness_of_threads(pid_t pid) {
  std::vector<int> all;
  const std::string tasks = fmt::format("/proc/{}/task", pid);
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    const std::string stat = read_file(task.path().string() + "/stat");
    std::istringstream fields(stat.substr(stat.rfind(')') + 1));
    std::string field;
    for (int i = 3; i <= 19; ++i) fields >> field;  // the 19th of proc(5)
    all.push_back(std::stoi(field));
  }
  return all;
}

TEST_P(S3Run, UploadsGiveWayToTheTraining) {
  Process& run = cluster.train_run({held_at(1)}, on());
  ASSERT_TRUE(wait_until([&] { return committed(1); }));
  const auto supervisors = cluster.processes("supervise");
  ASSERT_EQ(supervisors.size(), 1u);

  const std::vector<int> threads = niceness_of_threads(supervisors.front().pid);
  const int own = ::getpriority(PRIO_PROCESS, 0);

  EXPECT_EQ(::getpriority(PRIO_PROCESS, static_cast<id_t>(supervisors.front().pid)),
            own);  // its first thread's: reports and heartbeats do not wait
  EXPECT_GE(std::count(threads.begin(), threads.end(), std::max(own, 10)), 2);  // with the client's
  release(1);
  EXPECT_EQ(run.wait(), 0);
}

TEST_P(StoreRun, IsKeptInTheStoreAndSeenFromAnotherMachine) {
  const std::string out = said({job("epochs: 3", "  checkpoint_config: {num_to_keep: 2}\n")}, 0);
  EXPECT_TRUE(contains(out, "checkpoint   " + run_location + "/checkpoints/checkpoint_000003"))
      << out;

  EXPECT_EQ(keys("checkpoints"),
            (std::vector<std::string>{"checkpoints/checkpoint_000002/.manifest.json",
                                      "checkpoints/checkpoint_000003/.manifest.json",
                                      "checkpoints/data-1-0.2/rank-0000/state.json",
                                      "checkpoints/data-1-0.3/rank-0000/state.json"}));
  EXPECT_TRUE(store->get("exit.json", 1 << 20));
  EXPECT_EQ(store->get("owner.json", 1 << 20).error().code, Errc::NotFound);
  EXPECT_TRUE(contains(*store->get("attempts/000/ranks/0001/stdout.log", 1 << 20), "RANK=1"));

  const auto status =
      boost::json::parse(said({"status", run_location, "--output", "json"}, 0, "other"));
  EXPECT_EQ(text_of(status.as_object(), "state"), "finished");
  EXPECT_EQ(text_of(status.as_object(), "path"), run_location);
  EXPECT_EQ(text_of(status.at("metrics").as_object(), "epoch"), "2");
  EXPECT_TRUE(contains(said({"logs", run_location, "--rank", "0"}, 0, "third"), "RANK=0"));
  const auto rows = boost::json::parse(
      said({"checkpoint", "list", run_location, "--output", "json"}, 0, "other"));
  EXPECT_EQ(rows.as_array().size(), 2u);
  EXPECT_TRUE(contains(said({"checkpoint", "verify", run_location}, 0, "other"),
                       "2 of 2 checkpoints are intact"));
  const std::string copy = cluster.path("copy");
  said({"checkpoint", "export", run_location, "latest", copy}, 0, "other");
  EXPECT_EQ(read_file(copy + "/state.json"), "{\"epoch\":2}");
  said({"bundle", run_location, "-o", cluster.path("bundle.tar.gz")}, 0, "fourth");
  Process& tar = cluster.start({"tar", "-tzf", cluster.path("bundle.tar.gz")});
  EXPECT_EQ(tar.wait(), 0);
  for (const char* name :
       {"run/events.jsonl", "run/exit.json", "run/attempts/000/ranks/0001/stdout.log",
        "run/checkpoints/checkpoint_000003/.manifest.json", "MANIFEST.txt"})
    EXPECT_TRUE(contains(tar.out(), std::string("bundle/") + name + "\n")) << tar.out();
  EXPECT_TRUE(contains(said({"resume", run_location}, 73, "other"), "has finished"));
}

TEST_P(StoreRun, GoesOnFromItsNewestCheckpointWhenAWorkerDies) {
  Process& run = cluster.train_run(
      {job(fmt::format("epochs: 4, die_rank: 1, die_epoch: 2, die_after_file: '{}'",
                       cluster.path("die")),
           "  failure_config: {max_failures: 1}\n")},
      on());
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << run.out() << run.err();
  cluster.write("die", "");

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "restored epoch 1")) << run.out();
  EXPECT_EQ(keys("checkpoints").size(), 8u);
  EXPECT_TRUE(cluster.workers().empty());
  // Its private traind leaves after its supervisors.
  EXPECT_TRUE(wait_until([&] { return cluster.runtime_folders().empty(); }));
}

TEST_P(StoreRun, ItsWorkersOutliveTheLauncher) {
  Process& first = cluster.train_run({held_at(2)}, on());
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << first.out() << first.err();
  const auto workers = cluster.worker_pids();
  first.signal(SIGKILL);
  first.wait();
  const std::string status = said({"status", run_location}, 0);
  EXPECT_TRUE(contains(status, "interrupted: its train-run has died")) << status;

  Process& second = cluster.train_run({"resume", run_location}, on());
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "found"); }))
      << second.out() << second.err();
  EXPECT_EQ(cluster.worker_pids(), workers);
  release(2);

  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  EXPECT_TRUE(committed(4));
  EXPECT_FALSE(contains(second.out(), "restored")) << second.out();
}

/// Return files that users other than the owner may read. Fail if none of the files is a spec,
/// which may hold secrets.
std::vector<std::string> open_to_others(const std::string& folder) {
  bool spec = false;
  std::vector<std::string> open;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    spec |= entry.path().filename() == "spec.yaml";
    struct stat found {};
    EXPECT_EQ(::stat(entry.path().c_str(), &found), 0) << entry.path();
    if ((found.st_mode & 077) != 0) open.push_back(entry.path());
  }
  EXPECT_TRUE(spec);
  return open;
}

TEST_P(StoreRun, IsResumedOnAnotherMachineOnceItsLauncherIsDead) {
  Process& first = cluster.train_run({held_at(2)}, on());
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << first.out() << first.err();
  const std::string refused = said({"resume", run_location}, 73, "other");
  EXPECT_TRUE(contains(refused, run_location + " is held by a train-run on ")) << refused;
  EXPECT_TRUE(contains(refused, "--force")) << refused;
  const mode_t before = ::umask(0);
  const std::string held = said({"can-restore", run_location}, 1, "other");
  ::umask(before);
  EXPECT_TRUE(contains(held, "cannot be resumed: train-run pid ")) << held;
  EXPECT_EQ(open_to_others(cluster.path("other")), std::vector<std::string>{});
  first.signal(SIGKILL);
  first.wait();

  Process& second = cluster.train_run({"resume", run_location}, on("other"));
  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  EXPECT_TRUE(contains(second.out(), "restored epoch 1")) << second.out();
  EXPECT_TRUE(committed(4));
  const auto here = boost::json::parse(said({"status", run_location, "--output", "json"}, 0));
  EXPECT_EQ(text_of(here.as_object(), "state"), "finished");
  EXPECT_EQ(text_of(here.at("metrics").as_object(), "epoch"), "3");
}

TEST_P(S3Run, IsStoppedFromAnotherMachine) {
  Process& run = cluster.train_run({job("epochs: 1000000, checkpoint_every: 100")}, on());
  ASSERT_TRUE(wait_until([&] { return committed(1); })) << run.out() << run.err();
  const std::string status = said({"status", run_location}, 0, "other");
  EXPECT_TRUE(contains(status, "state:      running (train-run pid ")) << status;

  const std::string stopped = said({"stop", run_location}, 0, "other");
  EXPECT_TRUE(contains(stopped, "asked job to checkpoint and stop\nstopped")) << stopped;
  ASSERT_TRUE(run.wait()) << run.out();
  EXPECT_TRUE(contains(run.out(), "train-run stop")) << run.out();
}

TEST_P(S3Run, IsFollowedFromAnotherMachine) {
  const std::string job = cluster.write(
      "job.yaml",
      fmt::format(
          "name: job\n"
          "command: [sh, -c, 'echo begun; while [ ! -e {} ]; do sleep 0.1; done; echo over']\n"
          "scaling_config: {{num_workers: 1, resources_per_worker: {{CPU: 0}}}}\n"
          "run_config: {{storage_path: {}}}\n",
          cluster.path("go"), server.location("runs")));
  Process& run = cluster.train_run({job}, on());
  ASSERT_TRUE(wait_until([&] {
    const auto log = store->get("attempts/000/ranks/0000/stdout.log", 1 << 20);
    return log.has_value() && *log == "begun\n";
  })) << run.out()
      << run.err();
  Process& logs = cluster.train_run({"logs", "--follow", run_location}, on("other"));
  ASSERT_TRUE(wait_until([&] { return contains(logs.out(), "[0] begun\n"); })) << logs.err();
  cluster.write("go", "");

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(logs.wait(), 0) << logs.err();
  EXPECT_EQ(logs.out(), "[0] begun\n[0] over\n");
}

TEST_P(StoreRun, ALauncherThatWasReplacedEndsAndCommitsNothing) {
  Process& first = cluster.train_run({held_at(2)}, on());
  ASSERT_TRUE(wait_until([&] { return committed(2); })) << first.out() << first.err();

  Process& second = cluster.train_run({"resume", run_location, "--force"}, on("other"));
  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  EXPECT_NE(first.wait(), 0) << first.out();
  EXPECT_TRUE(contains(first.out() + first.err(), "was written by another launcher"))
      << first.out() << first.err();
  const std::string rows = said({"checkpoint", "list", run_location}, 0);
  EXPECT_TRUE(contains(rows, "checkpoint_000005")) << rows;  // 3 is barred to the first launcher
  EXPECT_FALSE(contains(rows, "checkpoint_000003")) << rows;
}

TEST_P(S3Run, ACheckpointWithADamagedObjectIsSkippedByName) {
  Process& first = cluster.train_run({held_at(3)}, on());
  ASSERT_TRUE(wait_until([&] { return committed(3); })) << first.out() << first.err();
  first.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return contains(first.out(), "stopping"); })) << first.out();
  first.signal(SIGINT);  // stop immediately
  EXPECT_NE(first.wait(), 0);
  ASSERT_TRUE(store->put("checkpoints/data-1-0.3/rank-0000/state.json", "{\"epoch\":7}"));

  const std::string verified = said({"checkpoint", "verify", run_location}, 1);
  EXPECT_TRUE(contains(verified, "'state.json': xxh3-128 is ")) << verified;
  const std::string out = said({"resume", run_location}, 0);
  EXPECT_TRUE(contains(out, "skipping checkpoint_000003, which is not intact")) << out;
  EXPECT_TRUE(contains(out, "restored epoch 1")) << out;
}

TEST_P(S3Run, AnOverloadedStoreDelaysCheckpointsAndIsSaid) {
  server.faults(R"([{"match": "^PUT .*data-1-0.1", "action": "503", "times": 4},
                    {"match": "^PUT .*data-1-0.2", "action": "reset", "times": 1},
                    {"match": "^PUT .*checkpoint_000003", "action": "503", "times": 2},
                    {"match": "^PUT .*checkpoint_000003", "action": "lost", "times": 1},
                    {"match": "^PUT .*journal", "action": "503", "times": 2}])");
  const std::string out = said({job("epochs: 3")}, 0);
  EXPECT_TRUE(contains(out, "; trying again")) << out;
  EXPECT_EQ(keys("checkpoints").size(), 6u);
  EXPECT_TRUE(
      contains(said({"checkpoint", "verify", run_location}, 0), "3 of 3 checkpoints are intact"));
}

TEST_P(StoreRun, ARunElsewhereBeginsFromACheckpointOfIt) {
  said({job("epochs: 2")}, 0);
  const std::string other = cluster.job(
      "other", fmt::format("command: [{}]\ntrain_loop_config: {{mode: epochs, epochs: 3}}\n"
                           "resume_from_checkpoint: {}/checkpoints/checkpoint_000002\n",
                           program("sdk_worker"), run_location));
  const std::string out = said({other}, 0);
  EXPECT_TRUE(contains(out, "restored epoch 1")) << out;
}

TEST_P(S3Run, AStoreThatDoesNotAnswerIsWaitedForWithAWord) {
  StartOptions options = on();
  options.env["AWS_ENDPOINT_URL"] = "http://127.0.0.1:1";
  for (const std::vector<std::string>& words :
       {std::vector{job("epochs: 1")}, {"checkpoint", "list", run_location}}) {
    Process& waiting = cluster.train_run(words, options);
    EXPECT_TRUE(wait_until([&] { return contains(waiting.err(), "; trying again"); }))
        << waiting.err();
    waiting.signal(SIGINT);
    EXPECT_TRUE(waiting.wait()) << "Ctrl-C ends it";
  }
}

TEST_P(S3Run, WhatCannotWorkIsSaidBeforeAnythingStarts) {
  const std::string bad = cluster.write(
      "bad.yaml", "name: bad\ncommand: 'touch started'\nworking_dir: " + cluster.dir() +
                      "\nrun_config: {storage_path: s3://missing/runs}\n");
  const std::string out = said({bad}, 66);
  EXPECT_TRUE(contains(out, "train-run: error: ")) << out;
  EXPECT_TRUE(contains(out, "does the bucket exist")) << out;
  EXPECT_FALSE(exists(cluster.path("started")));
}

}  // namespace
}  // namespace train::e2e
