// How a worker's session handles checkpoints.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "lib/base/quota.h"
#include "lib/wire/reports.h"
#include "sdk/client/checkpoint_stager.h"
#include "tests/unit/sdk_client/supervised_worker.h"

namespace train::sdk {
namespace {

namespace fs = std::filesystem;

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

TEST(SupervisedSession, HandsOverAWrittenCheckpointBehindItsReport) {
  Worker worker;
  Checkpoint checkpoint = writing("weights");
  checkpoint.set_metadata({{"note", "best"}});
  worker.session->set_data_position("train", {2, 640});

  worker.session->report({{"epoch", 2}}, &checkpoint);

  const auto staged = worker.supervisor.wait_for<CheckpointStaged>();
  EXPECT_EQ(staged.checkpoint_seq, 1u);
  EXPECT_EQ(staged.report_seq, 1u);
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

/// A run's folder as one machine's worker sees it, with a user's folder in it.
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
            "invalid_argument: Upload::None: the run's storage is 's3://bucket/runs/vit', where "
            "existing data cannot become part of a checkpoint (report it with "
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

  EXPECT_EQ(worker.supervisor.wait_for_reports(1)[0].report_seq, 1u);
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 0u);
}

TEST(SupervisedSession, RefusesMetadataThatNoManifestTakesByItsSize) {
  Worker worker;
  const std::string mebibyte(1 << 20, 'x');
  Checkpoint checkpoint = writing("weights");
  checkpoint.set_metadata({{"notes", mebibyte}});

  // Plus {"notes":"…","team":"vision"} around it.
  EXPECT_EQ(failure_of([&] {
              worker.session->report({{"epoch", 1}}, &checkpoint);
            }),
            "invalid_argument: report: 1048604 bytes of checkpoint metadata as JSON, at most "
            "1048576 are allowed (put large data into a file of the checkpoint)");
  checkpoint.set_metadata({{"notes", mebibyte.substr(28)}});
  worker.session->report({{"epoch", 2}}, &checkpoint);

  const auto staged = worker.supervisor.wait_for<CheckpointStaged>();
  EXPECT_EQ(staged.metadata_json.size(), 1048576u);
  EXPECT_EQ(staged.checkpoint_seq, 1u) << "the one that was refused counts";
  EXPECT_EQ(worker.supervisor.reports().size(), 1u);
}

TEST(SupervisedSession, RefusesMetadataThatNoManifestTakesByItsDepth) {
  Worker worker;
  Checkpoint checkpoint = writing("weights");
  checkpoint.set_metadata({{"notes", nested_lists(40)}});

  EXPECT_EQ(failure_of([&] { worker.session->report({}, &checkpoint); }),
            "invalid_argument: report: the checkpoint's metadata is nested 41 levels deep, at most "
            "31 are allowed (put such data into a file of the checkpoint)");
  checkpoint.set_metadata({{"notes", nested_lists(30)}});
  worker.session->report({}, &checkpoint);

  EXPECT_EQ(worker.supervisor.wait_for<CheckpointStaged>().metadata_json,
            R"({"notes":)" + to_json(nested_lists(30)) + R"(,"team":"vision"})");
  EXPECT_EQ(worker.supervisor.reports().size(), 1u);
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

// The writer may use calls of the SDK that have given the advice before.
TEST(SupervisedSession, GivesTheAdviceAgainstAQuotaOnce) {
  Worker worker;
  const std::string hint = fmt::format(" ({})", kOverQuotaHint);
  std::string thrown = "writing 'state': Disk quota exceeded" + hint;
  const Checkpoint checkpoint =
      Checkpoint::from_writer([&](const fs::path&) { throw Failure("no_space", thrown); });

  worker.session->report({}, &checkpoint);

  const auto staged = worker.supervisor.wait_for<CheckpointStaged>(0);
  const std::size_t first = staged.error.find(hint);
  EXPECT_NE(first, std::string::npos) << staged.error;
  EXPECT_EQ(staged.error.find(hint, first + 1), std::string::npos) << staged.error;
  EXPECT_TRUE(staged.error.starts_with("writing 'state': Disk quota exceeded")) << staged.error;

  thrown = "too little room";
  worker.session->report({}, &checkpoint);
  EXPECT_TRUE(
      worker.supervisor.wait_for<CheckpointStaged>(1).error.starts_with("too little room: "));
}

TEST(SupervisedSession, CopiesTheDirectoryOfAStopsCheckpoint) {
  Worker worker;
  const fs::path mine = worker.supervisor.folder() + "/mine";
  fs::create_directories(mine);
  std::ofstream(mine / "state") << "last";
  worker.session->on_stop([&] { return Checkpoint::from_directory(mine); });
  worker.supervisor.send(PauseWorkers{.step = "checkpoint", .report_seq = 1, .reason = ""});
  auto loop = std::async(std::launch::async, [&] {
    return failure_of([&] {
      while (!worker.session->should_stop()) std::this_thread::yield();
      worker.session->report({{"step", 1}}, nullptr);
    });
  });

  const auto staged = worker.supervisor.wait_for<CheckpointStaged>();
  EXPECT_EQ(text_of(staged.dir + "/state"), "last");
  EXPECT_EQ(staged.metrics_json, R"({"step":1})");
  EXPECT_EQ(staged.request, 0u) << "nobody asked for it";
  worker.supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "done"});
  EXPECT_EQ(loop.get(), "stopped: done");
}

TEST(CheckpointStager, AWriterMayWaitForAllThatIsStaged) {  // such as one that ends the program
  fs::path folder = ::testing::TempDir() + "sdk-stager-" + std::to_string(::getpid());
  std::promise<CheckpointStaged> handed_over;
  {
    CheckpointStager stager([&](CheckpointStaged staged) { handed_over.set_value(staged); });
    CheckpointStaged staged;
    staged.checkpoint_seq = 7;
    staged.dir = folder.string();
    stager.add({.staged = staged, .write = [&](const fs::path&) { stager.drain(); }});
    EXPECT_EQ(handed_over.get_future().get().checkpoint_seq, 7u);
    stager.drain();
  }
  fs::remove_all(folder);
}

TEST(SupervisedSession, KeepsAtMostTwoCheckpointsUnresolved) {
  Worker worker;
  worker.supervisor.resolve_checkpoints(false);
  const Checkpoint checkpoint = writing("x");
  worker.session->report({}, &checkpoint);
  worker.session->report({}, &checkpoint);
  auto third = std::async(std::launch::async, [&] { worker.session->report({}, &checkpoint); });

  worker.supervisor.wait_for<CheckpointStaged>(1);
  worker.session->report({{"step", 1}}, nullptr);  // reports without a checkpoint pass
  EXPECT_EQ(worker.supervisor.wait_for_reports(3).size(), 3u);
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 2u);
  worker.supervisor.send(CheckpointOutcome{.checkpoint_seq = 1, .path = "/c", .error = ""});
  third.get();

  EXPECT_EQ(worker.supervisor.wait_for<CheckpointStaged>(2).report_seq, 4u);
}

TEST(SupervisedSession, WaitsUntilItsCheckpointsAreCommitted) {
  Worker worker;
  worker.supervisor.resolve_checkpoints(false);
  EXPECT_EQ(worker.session->wait_for_checkpoint(), std::nullopt);  // there is none
  const Checkpoint checkpoint = writing("x");
  worker.session->report({}, &checkpoint);
  worker.session->report({}, &checkpoint);
  auto waiting =
      std::async(std::launch::async, [&] { return worker.session->wait_for_checkpoint(); });

  worker.supervisor.wait_for<CheckpointStaged>(1);
  worker.supervisor.send(CheckpointOutcome{.checkpoint_seq = 1, .path = "/c1", .error = ""});
  worker.supervisor.send(CheckpointOutcome{.checkpoint_seq = 2, .path = "/c2", .error = ""});

  EXPECT_EQ(waiting.get(), "/c2");
  EXPECT_EQ(worker.session->wait_for_checkpoint(), "/c2");
}

TEST(SupervisedSession, ALateOutcomeReplacesNoLaterOne) {
  Worker worker;
  worker.supervisor.resolve_checkpoints(false);
  const Checkpoint checkpoint = writing("x");
  worker.session->report({}, &checkpoint);
  worker.session->report({}, &checkpoint);
  worker.supervisor.wait_for<CheckpointStaged>(1);

  worker.supervisor.send(CheckpointOutcome{.checkpoint_seq = 2, .path = "/c2", .error = ""});
  worker.supervisor.send(CheckpointOutcome{.checkpoint_seq = 1, .path = "/c1", .error = ""});

  EXPECT_EQ(worker.session->wait_for_checkpoint(), "/c2");
}

TEST(SupervisedSession, WaitsForNoCheckpointOnceNobodyAnswers) {
  for (const bool stopped : {true, false}) {
    Worker worker;
    worker.supervisor.resolve_checkpoints(false);
    const Checkpoint checkpoint = writing("x");
    worker.session->report({}, &checkpoint);
    worker.supervisor.wait_for<CheckpointStaged>();
    auto waiting = std::async(std::launch::async, [&] {
      return failure_of([&] { worker.session->wait_for_checkpoint(); });
    });
    auto asking = std::async(std::launch::async, [&] {
      return failure_of(
          [&] { worker.session->reported_checkpoints(true, std::chrono::milliseconds::max()); });
    });

    if (stopped)
      worker.supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "enough"});
    else
      worker.supervisor.hang_up();

    const std::string why =
        stopped ? "stopped: enough" : "unavailable: the supervisor closed the connection";
    EXPECT_EQ(waiting.get(), why);
    EXPECT_EQ(asking.get(), why);
  }
}

TEST(SupervisedSession, WaitsForACheckpointThatIsGivenUp) {
  Worker worker;
  worker.supervisor.resolve_checkpoints(false);
  const Checkpoint checkpoint = writing("x");
  worker.session->report({}, &checkpoint);
  worker.supervisor.wait_for<CheckpointStaged>();
  worker.supervisor.send(
      CheckpointOutcome{.checkpoint_seq = 1, .path = "", .error = "the disk is full"});

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
  worker.supervisor.send(ReportedCheckpoints{0, ask.request + 1, {}});  // nobody asked for it
  worker.supervisor.send(ReportedCheckpoints{0, ask.request, {answered(1, "validated")}});

  const auto answer = asking.get();
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].number, 1u);
  EXPECT_EQ(answer[0].status, "validated");
}

TEST(SupervisedSession, AsksOnlyOnceItsOwnCheckpointsAreResolved) {
  Worker worker;
  worker.supervisor.resolve_checkpoints(false);
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
