// A worker's session against a fake supervisor, in one process.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "lib/wire/reports.h"
#include "sdk/client/supervised_session.h"
#include "tests/unit/sdk_client/fake_supervisor.h"

namespace train::sdk {
namespace {

namespace fs = std::filesystem;

Welcome welcome(int world_size = 1, int rank = 0) {
  Welcome w;
  w.world_size = world_size;
  w.rank = rank;
  w.local_world_size = world_size;
  w.local_rank = rank;
  w.node_count = 1;
  w.attempt = 3;
  w.run_id = "run-1";
  w.run_name = "demo";
  w.run_dir = "/runs/demo";
  w.config_json = R"({"lr":0.5})";
  w.metadata_json = R"({"team":"vision"})";
  return w;
}

struct Worker {
  explicit Worker(const Welcome& w = welcome()) : supervisor(w) {
    WorkerHello hello;
    hello.rank = w.rank;
    hello.attempt = w.attempt;
    hello.pid = 42;
    session = std::make_unique<SupervisedSession>(
        *join_supervisor(*connect_supervisor(supervisor.socket()), hello));
  }
  FakeSupervisor supervisor;
  std::unique_ptr<SupervisedSession> session;
};

Checkpoint writing(const std::string& text) {
  return Checkpoint::from_writer(
      [text](const fs::path& folder) { std::ofstream(folder / "state") << text; });
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

ino_t inode_of(const fs::path& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found.st_ino;
}

dev_t device_of(const fs::path& path) {
  struct stat found {};
  EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
  return found.st_dev;
}

template <class Call>
std::string failure_of(Call&& call) {
  try {
    call();
  } catch (const Failure& why) {
    return why.kind() + ": " + why.what();
  } catch (const Stopped& stopped) {
    return std::string("stopped: ") + stopped.what();
  }
  return "nothing was thrown";
}

TEST(SupervisedSession, KnowsWhatTheWelcomeSays) {
  Worker worker(welcome(4, 2));

  const WorkerHello hello = worker.supervisor.wait_for<WorkerHello>();
  EXPECT_EQ(hello.rank, 2);
  EXPECT_EQ(hello.attempt, 3u);
  EXPECT_EQ(hello.pid, 42);
  const WorkerInfo& info = worker.session->info();
  EXPECT_TRUE(info.supervised);
  EXPECT_EQ(info.world_size, 4);
  EXPECT_EQ(info.world_rank, 2);
  EXPECT_EQ(info.attempt, 3u);
  EXPECT_EQ(info.run_name, "demo");
  EXPECT_EQ(info.config.get<double>("lr"), 0.5);
  EXPECT_EQ(info.metadata, (Dict{{"team", "vision"}}));
  EXPECT_EQ(info.restored_epoch, std::nullopt);
}

TEST(SupervisedSession, SendsReportsInOrderWithFlatNames) {
  Worker worker;

  worker.session->report({{"step", 1}, {"val", Dict{{"acc", 0.5}, {"ok", true}}}}, nullptr);
  worker.session->report({{"step", 2}, {"note", "warm"}}, nullptr);

  const auto reports = worker.supervisor.wait_for_reports(2);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].ordinal, 1u);
  EXPECT_EQ(reports[0].metrics,
            (Metrics{{"step", std::int64_t{1}}, {"val.acc", 0.5}, {"val.ok", true}}));
  EXPECT_EQ(reports[1].ordinal, 2u);
  EXPECT_EQ(reports[1].metrics,
            (Metrics{{"note", std::string("warm")}, {"step", std::int64_t{2}}}));
  EXPECT_EQ(reports[1].attempt, 3u);
  EXPECT_FALSE(reports[1].has_checkpoint);
}

TEST(SupervisedSession, KeepsTheOrderOfEachThread) {
  constexpr int kThreads = 8, kReports = 10'000;
  Worker worker;

  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kReports; ++i) worker.session->report({{"thread", t}, {"i", i}}, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();

  const auto reports = worker.supervisor.wait_for_reports(std::size_t{kThreads} * kReports);
  ASSERT_EQ(reports.size(), std::size_t{kThreads} * kReports);
  std::vector<std::int64_t> next(kThreads, 0);
  for (std::size_t n = 0; n < reports.size(); ++n) {
    ASSERT_EQ(reports[n].ordinal, n + 1);
    const auto thread =
        static_cast<std::size_t>(std::get<std::int64_t>(reports[n].metrics[1].second));
    ASSERT_EQ(std::get<std::int64_t>(reports[n].metrics[0].second), next[thread]++);
  }
}

TEST(SupervisedSession, WaitsForRoomWhenEightMebibytesAreNotAcknowledged) {
  Worker worker;
  worker.supervisor.ack_reports(false);
  const std::string large(60'000, 'x');
  std::atomic<int> reported = 0;

  auto reporting = std::async(std::launch::async, [&] {
    for (int i = 0; i < 200; ++i) {
      worker.session->report({{"text", large}}, nullptr);
      ++reported;
    }
  });
  // 139 reports of 60,018 bytes fit into 8,388,608
  const auto before = worker.supervisor.wait_for_reports(139);
  EXPECT_EQ(before.size(), 139u);
  EXPECT_LE(reported, 139);
  worker.supervisor.ack_reports(true);
  worker.supervisor.send(AckReports{.acks = {{.rank = 0, .ordinal = 139}}});
  reporting.get();

  EXPECT_EQ(worker.supervisor.wait_for_reports(200).size(), 200u);
}

TEST(SupervisedSession, RefusesMetricsThatNoLogCanKeep) {
  Worker worker;
  const auto report = [&](const Dict& metrics) {
    return failure_of([&] { worker.session->report(metrics, nullptr); });
  };

  EXPECT_EQ(report({{"loss", Value()}}),
            "invalid_argument: report: metric 'loss' is null (a metric is a number, a bool or a "
            "string, or a dict of such)");
  EXPECT_EQ(report({{"a", Dict{{"b", List{1, 2}}}}}),
            "invalid_argument: report: metric 'a.b' is a list of 2 (a metric is a number, a bool "
            "or a string, or a dict of such)");
  EXPECT_EQ(report({{"a", Dict{{"b", 1}}}, {"a.b", 2}}),
            "invalid_argument: report: two metrics have the name 'a.b'");
  EXPECT_EQ(report({{"text", std::string(70'000, 'x')}}),
            "invalid_argument: report: 70022 bytes of metrics, at most 65536 fit into one report "
            "(put large values into a checkpoint or a file)");
}

TEST(SupervisedSession, HandsOverAWrittenCheckpointBehindItsReport) {
  Worker worker;
  Checkpoint checkpoint = writing("weights");
  checkpoint.set_metadata({{"note", "best"}});
  worker.session->set_data_position("train", 2, 640);

  worker.session->report({{"epoch", 2}}, &checkpoint);

  const auto staged = worker.supervisor.wait_for<CheckpointStaged>();
  EXPECT_EQ(staged.index, 1u);
  EXPECT_EQ(staged.report_ordinal, 1u);
  EXPECT_EQ(staged.dir, worker.supervisor.folder() + "/staging/ckpt-1");
  EXPECT_EQ(staged.metadata_json,
            R"({"data":{"train":{"epoch":2,"rows":640}},"note":"best","team":"vision"})");
  EXPECT_EQ(staged.metrics_json, R"({"epoch":2})");
  EXPECT_EQ(staged.error, "");
  EXPECT_EQ(text_of(staged.dir + "/state"), "weights");
  EXPECT_EQ(worker.supervisor.frame_names(),
            (std::vector<std::string>{"WorkerHello", "ReportBatch", "CheckpointStaged"}));
  EXPECT_TRUE(worker.supervisor.reports()[0].has_checkpoint);
}

TEST(SupervisedSession, CopiesOrTakesADirectoryBeforeReportReturns) {
  Worker worker;
  const fs::path mine = worker.supervisor.folder() + "/mine";
  fs::create_directories(mine / "sub");
  std::ofstream(mine / "a") << "A";
  std::ofstream(mine / "sub" / "b") << "B";
  std::ofstream(mine / ".hidden") << "no";

  const Checkpoint copied = Checkpoint::from_directory(mine);
  worker.session->report({}, &copied);
  EXPECT_TRUE(fs::exists(mine / "a"));
  std::ofstream(mine / "a") << "changed";
  const Checkpoint taken = Checkpoint::take_directory(mine);
  worker.session->report({}, &taken);
  EXPECT_FALSE(fs::exists(mine));

  const fs::path first = worker.supervisor.wait_for<CheckpointStaged>(0).dir;
  EXPECT_EQ(text_of(first / "a"), "A");
  EXPECT_EQ(text_of(first / "sub" / "b"), "B");
  EXPECT_FALSE(fs::exists(first / ".hidden"));
  EXPECT_EQ(text_of(fs::path(worker.supervisor.wait_for<CheckpointStaged>(1).dir) / "a"),
            "changed");
}

/// A run's folder as a worker of one machine sees it, with a folder of the user's in it.
struct RunFolder {
  fs::path path;
  explicit RunFolder(const std::string& below = "/tmp") {
    std::string name = below + "/sdk-run-XXXXXX";
    path = ::mkdtemp(name.data());
  }
  ~RunFolder() { fs::remove_all(path); }
  Welcome seen() const {
    Welcome w = welcome();
    w.run_dir = path.string();
    w.staging_dir = (path / "checkpoints/.staging-3/rank-0").string();
    return w;
  }
  fs::path written(const std::string& name) const {
    fs::create_directories(path / name / "sub");
    std::ofstream(path / name / "sub" / "state") << "weights";
    return path / name;
  }
};

TEST(SupervisedSession, TakesAFolderOfTheRunsStorageWithoutACopy) {
  RunFolder run;
  Worker worker(run.seen());
  const fs::path mine = run.written("mine");
  const ino_t inode = inode_of(mine / "sub" / "state");

  const Checkpoint moved = to_be_moved(Checkpoint::from_directory(mine), worker.session->info());
  worker.session->report({}, &moved);

  EXPECT_FALSE(fs::exists(mine));
  const fs::path staged = worker.supervisor.wait_for<CheckpointStaged>().dir;
  EXPECT_EQ(staged, run.path / "checkpoints/.staging-3/rank-0/ckpt-1");
  EXPECT_EQ(inode_of(staged / "sub" / "state"), inode);
  EXPECT_EQ(failure_of([&] { worker.session->report({}, &moved); }),
            "not_found: the checkpoint's folder '" + mine.string() +
                "' does not exist (each rank reports a folder of its own: one that was moved is "
                "gone)");
}

TEST(SupervisedSession, CopiesNothingFromAnotherFileSystem) {
  RunFolder run, elsewhere("/dev/shm");
  if (device_of(run.path) == device_of(elsewhere.path))
    GTEST_SKIP() << "/tmp and /dev/shm are one file system";
  Worker worker(run.seen());
  const fs::path mine = elsewhere.written("mine");
  const Checkpoint moved = to_be_moved(Checkpoint::take_directory(mine), worker.session->info());

  EXPECT_EQ(failure_of([&] { worker.session->report({}, &moved); }),
            "invalid_argument: '" + mine.string() +
                "' is in another file system than the run's checkpoints ('" + run.path.string() +
                "/checkpoints/.staging-3/rank-0'): it cannot become one without a copy (write it "
                "below train::get_context().storage_path(), or report it with Upload::Async, which "
                "copies)");

  EXPECT_EQ(text_of(mine / "sub" / "state"), "weights");
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 0u);
}

TEST(SupervisedSession, MovesNoCommittedCheckpointAndNothingAroundIt) {
  RunFolder run;
  Worker worker(run.seen());
  const fs::path committed = run.written("checkpoints/checkpoint_000001");
  std::ofstream(committed / ".manifest.json") << "{}";
  const auto refusal = [&](const fs::path& folder) {
    const Checkpoint taken = Checkpoint::take_directory(folder);
    return failure_of([&] { worker.session->report({}, &taken); });
  };

  EXPECT_EQ(refusal(committed / "sub"),
            "invalid_argument: '" + (committed / "sub").string() +
                "' belongs to the committed checkpoint '" + committed.string() +
                "', which is not moved (report a copy of it: Checkpoint::from_directory and "
                "Upload::Async)");
  EXPECT_NE(refusal(run.path).find("holds the run's checkpoints"), std::string::npos);
  EXPECT_EQ(text_of(committed / "sub" / "state"), "weights");
}

TEST(SupervisedSession, MovesNothingIntoStorageThatIsNoFolderHere) {
  RunFolder run;
  const Checkpoint mine = Checkpoint::from_directory(run.written("mine"));
  const auto refusal = [&](const std::string& run_dir, const std::string& staging) {
    WorkerInfo info;
    info.supervised = true;
    info.run_dir = run_dir;
    info.staging_dir = staging;
    return failure_of([&] { to_be_moved(mine, info); });
  };

  EXPECT_EQ(refusal("s3://bucket/runs/vit", "/var/tmp/staging"),
            "invalid_argument: Upload::None: the run's storage is 's3://bucket/runs/vit', and "
            "nothing that is there already can become part of a checkpoint (report it with "
            "Upload::Async, which copies)");
  EXPECT_EQ(refusal("/data/runs/vit", "/var/tmp/data/run/checkpoints/.staging-0/rank-0"),
            "invalid_argument: Upload::None: this node has no access to the run's folder "
            "'/data/runs/vit' (report it with Upload::Async, which copies)");
}

TEST(SupervisedSession, ReportsNothingWhenADirectoryCannotBeStaged) {
  Worker worker;
  const fs::path mine = worker.supervisor.folder() + "/mine";
  fs::create_directories(mine);
  fs::create_symlink("/etc/passwd", mine / "link");
  const Checkpoint checkpoint = Checkpoint::from_directory(mine);

  EXPECT_EQ(failure_of([&] { worker.session->report({}, &checkpoint); }),
            "invalid_argument: '" + (mine / "link").string() +
                "' is neither a file nor a folder (a checkpoint holds only files and folders; copy "
                "what a link points to)");
  worker.session->report({{"step", 1}}, nullptr);

  EXPECT_EQ(worker.supervisor.wait_for_reports(1)[0].ordinal, 1u);
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 0u);
}

TEST(SupervisedSession, TellsWhyAWriterFailedAndGoesOn) {
  Worker worker;
  const Checkpoint broken =
      Checkpoint::from_writer([](const fs::path&) { throw std::runtime_error("disk on fire"); });

  worker.session->report({}, &broken);
  const Checkpoint good = writing("fine");
  worker.session->report({}, &good);

  EXPECT_EQ(worker.supervisor.wait_for<CheckpointStaged>(0).error, "disk on fire");
  EXPECT_EQ(worker.supervisor.wait_for<CheckpointStaged>(1).error, "");
}

TEST(SupervisedSession, SaysThatAWriterFoundNoSpace) {
  Worker worker;
  const Checkpoint checkpoint = Checkpoint::from_writer([](const fs::path& folder) {
    std::ofstream(folder / "state") << "half";
    throw fs::filesystem_error("copying", std::make_error_code(std::errc::no_space_on_device));
  });

  worker.session->report({}, &checkpoint);

  const auto staged = worker.supervisor.wait_for<CheckpointStaged>(0);
  EXPECT_EQ(staged.error_code, "no_space");
  EXPECT_NE(staged.error.find("No space left on device: 4 bytes were written, "), std::string::npos)
      << staged.error;
}

TEST(SupervisedSession, KeepsAtMostTwoCheckpointsUnsettled) {
  Worker worker;
  worker.supervisor.settle_checkpoints(false);
  const Checkpoint checkpoint = writing("x");
  worker.session->report({}, &checkpoint);
  worker.session->report({}, &checkpoint);
  auto third = std::async(std::launch::async, [&] { worker.session->report({}, &checkpoint); });

  worker.supervisor.wait_for<CheckpointStaged>(1);
  worker.session->report({{"step", 1}}, nullptr);  // reports without one pass
  EXPECT_EQ(worker.supervisor.wait_for_reports(3).size(), 3u);
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 2u);
  worker.supervisor.send(CheckpointOutcome{.index = 1, .path = "/c", .error = ""});
  third.get();

  EXPECT_EQ(worker.supervisor.wait_for<CheckpointStaged>(2).report_ordinal, 4u);
}

TEST(SupervisedSession, WaitsUntilItsCheckpointsAreCommitted) {
  Worker worker;
  worker.supervisor.settle_checkpoints(false);
  EXPECT_EQ(worker.session->wait_for_checkpoint(), std::nullopt);  // there is none
  const Checkpoint checkpoint = writing("x");
  worker.session->report({}, &checkpoint);
  worker.session->report({}, &checkpoint);
  auto waiting =
      std::async(std::launch::async, [&] { return worker.session->wait_for_checkpoint(); });

  worker.supervisor.wait_for<CheckpointStaged>(1);
  worker.supervisor.send(CheckpointOutcome{.index = 1, .path = "/c1", .error = ""});
  worker.supervisor.send(CheckpointOutcome{.index = 2, .path = "/c2", .error = ""});

  EXPECT_EQ(waiting.get(), "/c2");
  EXPECT_EQ(worker.session->wait_for_checkpoint(), "/c2");
}

TEST(SupervisedSession, WaitsForACheckpointThatIsGivenUp) {
  Worker worker;
  worker.supervisor.settle_checkpoints(false);
  const Checkpoint checkpoint = writing("x");
  worker.session->report({}, &checkpoint);
  worker.supervisor.wait_for<CheckpointStaged>();
  worker.supervisor.send(CheckpointOutcome{.index = 1, .path = "", .error = "the disk is full"});

  EXPECT_EQ(worker.session->wait_for_checkpoint(), std::nullopt);
}

TEST(SupervisedSession, GathersThePartsOfAllRanks) {
  Worker worker(welcome(2, 1));
  auto gathering = std::async(std::launch::async, [&] {
    return worker.session->all_gather("rows", "mine", std::chrono::milliseconds::max());
  });

  const auto join = worker.supervisor.wait_for<CollectiveJoin>();
  EXPECT_EQ(join.rank, 1);
  EXPECT_EQ(join.sequence, 1u);
  EXPECT_EQ(join.name, "rows");
  EXPECT_EQ(join.data, "mine");
  worker.supervisor.send(CollectiveResult{.sequence = 1, .parts = {"theirs", "mine"}, .error = ""});

  EXPECT_EQ(gathering.get(), (std::vector<std::string>{"theirs", "mine"}));
}

TEST(SupervisedSession, SaysWhyACollectiveFailed) {
  Worker worker(welcome(2));
  auto gathering = std::async(std::launch::async, [&] {
    return failure_of(
        [&] { worker.session->all_gather("barrier", "", std::chrono::milliseconds::max()); });
  });
  worker.supervisor.wait_for<CollectiveJoin>();
  worker.supervisor.send(CollectiveResult{
      .sequence = 1, .parts = {}, .error = "'barrier' cannot complete: rank 1 has already ended"});

  EXPECT_EQ(gathering.get(), "unavailable: 'barrier' cannot complete: rank 1 has already ended");
  EXPECT_EQ(
      failure_of([&] { worker.session->all_gather("barrier", "", std::chrono::milliseconds(1)); }),
      "timeout: 'barrier' (collective call 2 of rank 0): not all ranks made it within 1 ms");
  EXPECT_EQ(failure_of([&] {
              worker.session->all_gather("big", std::string(65'537, 'x'),
                                         std::chrono::milliseconds(1));
            }),
            "invalid_argument: 'big': 65537 bytes, at most 65536 a rank travel in a collective "
            "call (larger data: a checkpoint, or the "
            "process group)");
}

TEST(SupervisedSession, RunsOnceWhenTheNodeSaysSoAndTellsHowItWent) {
  Worker worker;
  int calls = 0;
  const auto once = [&](const std::string& name, const std::string& verdict,
                        const std::string& error) {
    const std::size_t before = worker.supervisor.count(MessageType::OnceBegin);
    auto running = std::async(std::launch::async, [&] {
      return failure_of([&] {
        worker.session->once_per_node(name, [&] {
          ++calls;
          if (name == "breaks") throw std::runtime_error("no route");
        });
      });
    });
    worker.supervisor.wait_for<OnceBegin>(before);
    worker.supervisor.send(OnceReply{.name = name, .verdict = verdict, .error = error});
    try {
      return running.get();
    } catch (const std::runtime_error& e) {
      return std::string("rethrown: ") + e.what();
    }
  };

  EXPECT_EQ(once("runs", "run", ""), "nothing was thrown");
  EXPECT_EQ(worker.supervisor.wait_for<OnceEnd>(0).error, "");
  EXPECT_EQ(once("elsewhere", "done", ""), "nothing was thrown");
  EXPECT_EQ(once("breaks", "run", ""), "rethrown: no route");
  EXPECT_EQ(worker.supervisor.wait_for<OnceEnd>(1).error, "no route");
  EXPECT_EQ(
      once("broken", "failed", "no route"),
      "unavailable: once_per_node('broken') failed on the rank of this node that ran it: no route");
  EXPECT_EQ(calls, 2);
  worker.session->once_per_node("runs", [&] { ++calls; });
  EXPECT_EQ(calls, 2);
}

TEST(SupervisedSession, PausesGoesOnAndStopsWhereAllRanksStop) {
  Worker worker;
  worker.session->on_stop([] { return writing("last"); });
  worker.session->report({{"step", 1}}, nullptr);
  EXPECT_FALSE(worker.session->should_stop());
  worker.supervisor.send(PauseWorkers{.step = "pause", .ordinal = 0, .reason = ""});
  auto loop = std::async(std::launch::async, [&] {
    return failure_of([&] {
      while (!worker.session->should_stop()) std::this_thread::yield();
      for (int step = 2; step < 100; ++step) worker.session->report({{"step", step}}, nullptr);
    });
  });

  // pauses behind report 2; the others are at 4
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(0).ordinal, 2u);
  worker.supervisor.send(PauseWorkers{.step = "advance", .ordinal = 4, .reason = ""});
  const auto paused = worker.supervisor.wait_for<WorkerPaused>(1);
  const auto staged = worker.supervisor.wait_for<CheckpointStaged>();
  worker.supervisor.send(
      PauseWorkers{.step = "finish", .ordinal = 0, .reason = "stopped by Ctrl-C"});

  EXPECT_EQ(loop.get(), "stopped: stopped by Ctrl-C");
  EXPECT_EQ(paused.ordinal, 4u);
  EXPECT_EQ(paused.checkpoint_index, 1u);
  EXPECT_EQ(staged.index, 1u);
  EXPECT_EQ(staged.report_ordinal, 4u);
  EXPECT_EQ(worker.supervisor.reports().size(), 4u);
  EXPECT_EQ(failure_of([&] { worker.session->report({}, nullptr); }), "stopped: stopped by Ctrl-C");
}

TEST(SupervisedSession, MakesNoCheckpointAtTheStopWhenTheReportHadOne) {
  Worker worker;
  worker.session->on_stop([] { return writing("not wanted"); });
  worker.supervisor.send(PauseWorkers{.step = "pause", .ordinal = 0, .reason = ""});
  auto loop = std::async(std::launch::async, [&] {
    return failure_of([&] {
      while (!worker.session->should_stop()) std::this_thread::yield();
      const Checkpoint checkpoint = writing("mine");
      worker.session->report({}, &checkpoint);
    });
  });
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(0).checkpoint_index, 1u);
  worker.supervisor.send(PauseWorkers{.step = "advance", .ordinal = 1, .reason = ""});
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(1).ordinal, 1u);
  worker.supervisor.send(PauseWorkers{.step = "finish", .ordinal = 0, .reason = "done"});

  EXPECT_EQ(loop.get(), "stopped: done");
  worker.supervisor.wait_for<CheckpointStaged>(
      0);  // by a thread of the SDK, perhaps a little later
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 1u);
}

TEST(SupervisedSession, StopsAWorkerThatWaitsInACollective) {
  Worker worker(welcome(2));
  auto waiting = std::async(std::launch::async, [&] {
    return failure_of(
        [&] { worker.session->all_gather("barrier", "", std::chrono::milliseconds::max()); });
  });
  worker.supervisor.wait_for<CollectiveJoin>();

  worker.supervisor.send(PauseWorkers{.step = "pause", .ordinal = 0, .reason = ""});
  worker.supervisor.send(
      PauseWorkers{.step = "finish", .ordinal = 0, .reason = "stopped by SIGTERM"});

  EXPECT_EQ(waiting.get(), "stopped: stopped by SIGTERM");
}

TEST(SupervisedSession, SaysGoodbyeBehindEverythingElse) {
  Worker worker;
  const Checkpoint checkpoint = writing("x");
  worker.session->report({{"step", 1}}, &checkpoint);
  worker.session->set_result("[1]");
  worker.session->set_result("[2]");

  worker.session->finish();

  const auto names = worker.supervisor.frame_names();
  EXPECT_EQ(names.back(), "WorkerGoodbye");
  EXPECT_EQ(worker.supervisor
                .wait_for<WorkerResult>(worker.supervisor.count(MessageType::WorkerResult) - 1)
                .json,
            "[2]");
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 1u);
  EXPECT_EQ(failure_of([&] { worker.session->report({}, nullptr); }),
            "unavailable: this worker has said goodbye: the loop is over");
  worker.session->finish();
  EXPECT_EQ(worker.supervisor.count(MessageType::WorkerGoodbye), 1u);
}

TEST(SupervisedSession, FailsEveryCallOnceTheSupervisorIsGone) {
  Worker worker(welcome(2));
  auto waiting = std::async(std::launch::async, [&] {
    return failure_of(
        [&] { worker.session->all_gather("barrier", "", std::chrono::milliseconds::max()); });
  });
  worker.supervisor.wait_for<CollectiveJoin>();

  worker.supervisor.hang_up();

  EXPECT_EQ(waiting.get(), "unavailable: the supervisor closed the connection");
  EXPECT_EQ(failure_of([&] { worker.session->report({}, nullptr); }),
            "unavailable: the supervisor closed the connection");
}

AnsweredCheckpoint answered(std::uint64_t number, const std::string& status) {
  AnsweredCheckpoint answer{number, "/runs/demo/checkpoints/x", status, "", ""};
  append_report(0, true, {{"acc", 0.5}}, answer.metrics);
  return answer;
}

TEST(SupervisedSession, AsksWhichCheckpointsThereAre) {
  Worker worker;
  auto asking = std::async(std::launch::async, [&] {
    return worker.session->reported_checkpoints(true, std::chrono::milliseconds::max());
  });

  const auto ask = worker.supervisor.wait_for<AskCheckpoints>();
  EXPECT_EQ(ask.rank, 0);
  EXPECT_TRUE(ask.validated);
  worker.supervisor.send(ReportedCheckpoints{0, ask.request + 1, {}});  // to nobody
  worker.supervisor.send(ReportedCheckpoints{0, ask.request, {answered(1, "validated")}});

  const auto answer = asking.get();
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].number, 1u);
  EXPECT_EQ(answer[0].status, "validated");
}

TEST(SupervisedSession, AsksOnlyOnceItsOwnCheckpointsAreSettled) {
  Worker worker;
  worker.supervisor.settle_checkpoints(false);
  worker.session->report({{"epoch", 1}}, nullptr);
  const Checkpoint checkpoint = writing("state");
  worker.session->report({{"epoch", 2}}, &checkpoint);

  EXPECT_TRUE(
      failure_of([&] { worker.session->reported_checkpoints(false, std::chrono::milliseconds(1)); })
          .starts_with("timeout: get_all_reported_checkpoints: not all checkpoints are "
                       "committed within"));
  EXPECT_EQ(worker.supervisor.count(MessageType::AskCheckpoints), 0u);
}

}  // namespace
}  // namespace train::sdk
