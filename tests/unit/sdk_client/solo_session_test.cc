// A worker started by hand: its checkpoints are below one folder, and its world has size one.
#include "sdk/client/solo_session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <future>

#include "lib/storage/checkpoint_store.h"
#include "lib/wire/reports.h"
#include "tests/unit/sdk_client/supervised_worker.h"

namespace train::sdk {
namespace {

namespace fs = std::filesystem;
constexpr auto kForever = std::chrono::milliseconds::max();

class Solo : public testing::Test {
 protected:
  Solo() {
    char name[] = "/tmp/sdk-solo-XXXXXX";
    root = ::mkdtemp(name);
    checkpoints = root / "checkpoints";
  }
  ~Solo() override { fs::remove_all(root); }

  SoloSession session(WorkerInfo info = {}) const {
    return SoloSession(std::move(info), checkpoints.string());
  }
  Result<ListedCheckpoint> find(std::uint64_t number) {
    return CheckpointStore(files, checkpoints.string()).find(CheckpointNumber{number});
  }

  fs::path root, checkpoints;
  PosixFileSystem files;
};

TEST_F(Solo, KeepsACheckpointWithAllThatBelongsToIt) {
  WorkerInfo info;
  info.metadata = {{"team", "vision"}};
  SoloSession solo = session(info);
  Checkpoint checkpoint = writing("weights");
  checkpoint.set_metadata({{"note", "best"}});
  solo.set_data_position("train", {2, 640});

  solo.report({{"epoch", 1}}, nullptr);
  EXPECT_EQ(solo.wait_for_checkpoint(), std::nullopt);
  solo.report({{"epoch", 2}, {"val", Dict{{"acc", 0.5}}}}, &checkpoint);

  EXPECT_EQ(solo.wait_for_checkpoint(), checkpoints / "checkpoint_000001");
  const auto kept = find(1);
  ASSERT_FALSE(kept.has_error() || kept->manifest.has_error());
  EXPECT_EQ(kept->manifest->metrics, (Metrics{{"epoch", std::int64_t{2}}, {"val.acc", 0.5}}));
  EXPECT_EQ(kept->manifest->metadata,
            (boost::json::object{{"data", {{"train", {{"epoch", 2}, {"rows", 640}}}}},
                                 {"note", "best"},
                                 {"team", "vision"}}));
  EXPECT_EQ(kept->manifest->world_size, 1);
  EXPECT_EQ(text_of(checkpoints / "checkpoint_000001/state"), "weights");
  solo.finish();
  EXPECT_EQ(CheckpointStore(files, checkpoints.string()).pending()->size(), 0u);
  EXPECT_FALSE(fs::exists(checkpoints / (".staging-" + std::to_string(::getpid()))));
  EXPECT_EQ(failure_of([&] { solo.report({}, nullptr); }), "unavailable: report: the loop is over");
}

TEST_F(Solo, KeepsTheRestoredPositionsOfDatasetsThatItHasNotReadYet) {
  SoloSession solo = session();
  solo.set_data_position("both", {4, 8});
  solo.restore_data_positions({{"data", Dict{{"both", Dict{{"epoch", 3}, {"rows", 640}}},
                                             {"later", Dict{{"epoch", 1}, {"rows", 64}}}}}});
  solo.set_data_position("new", {0, 16, std::make_shared<const Dict>(Dict{{"lanes", 16}})});
  const Checkpoint checkpoint = writing("weights");

  solo.report({}, &checkpoint);

  (void)solo.wait_for_checkpoint();
  EXPECT_EQ(
      find(1)->manifest->metadata,
      (boost::json::object{{"data",
                            {{"both", {{"epoch", 4}, {"rows", 8}}},
                             {"later", {{"epoch", 1}, {"rows", 64}}},
                             {"new", {{"epoch", 0}, {"order", {{"lanes", 16}}}, {"rows", 16}}}}}}));
}

TEST_F(Solo, NumbersItsCheckpointsAndSaysWhichIsTheNewest) {
  SoloSession solo = session();
  for (int epoch = 0; epoch < 5; ++epoch) {  // more than may be unresolved
    const Checkpoint checkpoint = writing(std::to_string(epoch));
    solo.report({{"epoch", epoch}}, &checkpoint);
  }

  EXPECT_EQ(solo.wait_for_checkpoint(), checkpoints / "checkpoint_000005");
  for (int epoch = 0; epoch < 5; ++epoch)
    EXPECT_EQ(text_of(find(static_cast<std::uint64_t>(epoch) + 1)->path + "/state"),
              std::to_string(epoch));
}

TEST_F(Solo, RefusesMetadataWithTheKeyOfThePositions) {
  Checkpoint checkpoint = writing("weights");

  EXPECT_EQ(failure_of([&] {
              checkpoint.set_metadata({{"data", Dict{{"version", 3}}}});
            }),
            "invalid_argument: Checkpoint::set_metadata: the key 'data' is where checkpoints hold "
            "the datasets' positions (use another key; leave it out of a restored checkpoint's "
            "metadata())");
  EXPECT_EQ(checkpoint.metadata(), Dict{});
}

TEST_F(Solo, RefusesMetadataThatNoManifestTakes) {
  SoloSession solo = session();
  const auto report = [&](Dict metadata) {
    Checkpoint checkpoint = writing("weights");
    checkpoint.set_metadata(std::move(metadata));
    return failure_of([&] { solo.report({}, &checkpoint); });
  };

  EXPECT_EQ(report({{"notes", nested_lists(31)}}),
            "invalid_argument: report: the checkpoint's metadata is nested 32 levels deep, at most "
            "31 are allowed (put such data into a file of the checkpoint)");
  EXPECT_EQ(report({{"notes", std::string(1 << 20, 'x')}}),
            "invalid_argument: report: 1048588 bytes of checkpoint metadata as JSON, at most "
            "1048576 are allowed (put large data into a file of the checkpoint)");
  EXPECT_EQ(report({{"notes", nested_lists(30)}}), "nothing was thrown");

  EXPECT_EQ(solo.wait_for_checkpoint(), checkpoints / "checkpoint_000001");
  EXPECT_EQ(boost::json::serialize(find(1)->manifest->metadata),
            R"({"notes":)" + to_json(nested_lists(30)) + "}");
}

TEST_F(Solo, GoesOnBehindACheckpointThatCouldNotBeWritten) {
  SoloSession solo = session();
  const Checkpoint broken =
      Checkpoint::from_writer([](const fs::path&) { throw std::runtime_error("disk on fire"); });
  solo.report({}, &broken);
  EXPECT_EQ(solo.wait_for_checkpoint(), std::nullopt);

  const Checkpoint whole = writing("weights");
  solo.report({}, &whole);

  EXPECT_EQ(solo.wait_for_checkpoint(), checkpoints / "checkpoint_000001");
  solo.report({}, &broken);
  EXPECT_EQ(solo.wait_for_checkpoint(), std::nullopt) << "the newest was given up";
}

TEST_F(Solo, ResumesFromTheNewestWholeCheckpoint) {
  WorkerInfo info;
  find_restorable(checkpoints.string(), info);
  EXPECT_EQ(info.restore_dir, "");
  {
    SoloSession solo = session();
    for (const Dict& metrics : {Dict{{"epoch", 6.5}}, Dict{{"epoch", std::nan("")}},
                                Dict{{"epoch", "last"}}, Dict{{"loss", 1.0}}}) {
      const Checkpoint checkpoint = writing("weights");
      solo.report(metrics, &checkpoint);
    }
    solo.finish();
  }
  const auto restored = [&] {
    WorkerInfo found;
    find_restorable(checkpoints.string(), found);
    return std::pair(found.restore_dir, found.restored_epoch);
  };
  const auto folder = [&](const char* name) { return (checkpoints / name).string(); };

  for (const char* without_epoch :
       {"checkpoint_000004", "checkpoint_000003", "checkpoint_000002"}) {
    EXPECT_EQ(restored(), std::pair(folder(without_epoch), std::optional<std::int64_t>()));
    fs::remove(checkpoints / without_epoch / "state");
  }
  EXPECT_EQ(restored(), std::pair(folder("checkpoint_000001"), std::optional<std::int64_t>(6)));
}

/// With the folder that train-run gives a program that it starts alone.
class SoloRun : public Solo {
 protected:
  WorkerInfo joined() {
    WorkerInfo info;
    join_run_folder((root / "run").string(), info);
    return info;
  }
  fs::path attempt() const { return root / "run/attempts/000"; }
};

TEST_F(SoloRun, SaysWhatBecomesOfItsCheckpointsAndItsResult) {
  SoloSession solo(joined(), checkpoints.string());
  const Checkpoint whole = writing("weights");
  const Checkpoint broken =
      Checkpoint::from_writer([](const fs::path&) { throw std::runtime_error("disk on fire"); });
  solo.report({{"loss", 2}}, &broken);
  (void)solo.wait_for_checkpoint();
  solo.report({{"loss", 1}}, &whole);
  (void)solo.wait_for_checkpoint();
  solo.send_error(
      {.what = std::string(1 << 20, 'x'), .type = "std::runtime_error", .stack = "\xff"});
  solo.set_result(R"({"accuracy":0.5})");
  solo.finish();

  std::ifstream file(attempt() / "solo.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], R"({"checkpoint":"checkpoint_000001","report_seq":2})");
  EXPECT_LT(lines[1].size(), 140'000u);
  EXPECT_EQ(lines[2], R"({"result":{"accuracy":5E-1}})");
}

TEST_F(SoloRun, StopsAtTheReportAfterItWasAskedAndMakesACheckpoint) {
  SoloSession solo(joined(), checkpoints.string());
  solo.on_stop([&] {
    solo.report({{"from", "on_stop"}}, nullptr);
    return writing("stopped");
  });
  solo.report({{"epoch", 1}}, nullptr);
  EXPECT_FALSE(solo.should_stop());
  std::ofstream(attempt() / "stop").close();
  EXPECT_TRUE(solo.should_stop());

  EXPECT_EQ(failure_of([&] {
              solo.report({{"epoch", 2}}, nullptr);
            }),
            "stopped: somebody has asked the program to stop");

  EXPECT_EQ(find(1)->manifest->metrics, (Metrics{{"epoch", std::int64_t{2}}}));
  EXPECT_EQ(failure_of([&] {
              const Checkpoint own = writing("own");
              solo.report({{"epoch", 3}}, &own);
            }),
            "stopped: somebody has asked the program to stop");
  EXPECT_EQ(solo.wait_for_checkpoint(), checkpoints / "checkpoint_000002") << "not a third";
}

TEST_F(Solo, RemovesWhatAKilledProgramStaged) {
  fs::create_directories(checkpoints / ".staging-1/ckpt-1/sub");
  std::ofstream(checkpoints / ".staging-1/ckpt-1/sub/state") << "half";
  fs::create_directories(checkpoints / ".staging-2/rank-0");  // of a run of train-run
  fs::create_directories(root / "elsewhere/ckpt-1");
  fs::create_directory_symlink(root / "elsewhere", checkpoints / ".staging-3");
  SoloSession solo = session();
  const Checkpoint checkpoint = writing("weights");

  solo.report({}, &checkpoint);

  EXPECT_EQ(solo.wait_for_checkpoint(), checkpoints / "checkpoint_000001");
  EXPECT_FALSE(fs::exists(checkpoints / ".staging-1"));
  EXPECT_TRUE(fs::exists(checkpoints / ".staging-2/rank-0"));
  EXPECT_TRUE(fs::exists(root / "elsewhere/ckpt-1"));
}

TEST_F(Solo, OneProgramAtATimeWritesCheckpoints) {
  const Checkpoint checkpoint = writing("weights");
  SoloSession first = session();
  first.report({}, &checkpoint);
  SoloSession second = session();

  EXPECT_EQ(failure_of([&] { second.report({}, &checkpoint); }),
            "unavailable: another program writes checkpoints into " + checkpoints.string() +
                " (run in another working directory, or end that program)");
  second.report({}, nullptr);
  EXPECT_EQ(first.wait_for_checkpoint(), checkpoints / "checkpoint_000001");
}

TEST_F(Solo, TellsOfTheCheckpointsThatAreThere) {
  SoloSession solo = session();
  for (int n = 1; n <= 3; ++n) {
    const Checkpoint checkpoint = writing("weights");
    solo.report({{"n", n}}, &checkpoint);
  }
  (void)solo.wait_for_checkpoint();
  ASSERT_FALSE(write_validation(files, (checkpoints / "checkpoint_000002").string(),
                                {.checkpoint = CheckpointNumber{2},
                                 .status = ValidationStatus::Failed,
                                 .metrics = {},
                                 .error = "no data",
                                 .took_ms = 1,
                                 .ended = "2026-11-21T09:38:00.123456Z"})
                   .has_error());
  fs::remove(checkpoints / "checkpoint_000003/.manifest.json");

  const auto reported = solo.reported_checkpoints(true, kForever);

  ASSERT_EQ(reported.size(), 2u);
  EXPECT_EQ(reported[0].number, 1u);
  EXPECT_EQ(reported[0].path, (checkpoints / "checkpoint_000001").string());
  EXPECT_EQ(reported[0].status, "committed");
  EXPECT_EQ(reported[0].error, "");
  EXPECT_EQ(reported[1].number, 2u);
  EXPECT_EQ(reported[1].status, "failed");
  EXPECT_EQ(reported[1].error, "no data");
  const ReportBatch batch{
      .rank = 0, .first_report_seq = 1, .count = 1, .data = reported[1].metrics};
  EXPECT_EQ(read_reports(batch, 0)->front().metrics, (Metrics{{"n", std::int64_t{2}}}));
}

TEST_F(Solo, AProcessThatValidatesMakesNoCheckpoints) {
  WorkerInfo info;
  info.validating = true;
  SoloSession solo = session(info);
  const Checkpoint checkpoint = writing("weights");

  EXPECT_EQ(failure_of([&] { solo.report({}, &checkpoint); }),
            "invalid_argument: report: a process that validates makes no checkpoints");
  solo.report({}, nullptr);
  EXPECT_EQ(solo.reported_checkpoints(false, kForever).size(), 0u);
  EXPECT_FALSE(fs::exists(checkpoints));
}

TEST_F(Solo, HasNoOtherRanks) {
  WorkerInfo info;
  info.world_size = info.local_world_size = 2;
  SoloSession one_of_two = session(info), alone = session();

  EXPECT_EQ(failure_of([&] { one_of_two.all_gather("rows", "mine", kForever); }),
            "unavailable: 'rows' needs trainrun to connect 2 ranks, and this program was started "
            "without it (run it with train-run, or use the process group)");
  EXPECT_EQ(failure_of([&] { one_of_two.once_per_node("prepare", [] {}); }),
            "unavailable: once_per_node('prepare') needs trainrun to connect the 2 ranks of this "
            "node, and this program was started without it");
  EXPECT_EQ(alone.all_gather("rows", "mine", kForever), std::vector<std::string>{"mine"});
  EXPECT_FALSE(alone.should_stop());
}

TEST_F(Solo, AcceptsWhatAFrameCarriesAndNoMore) {
  SoloSession solo = session();
  const auto gather = [&](std::size_t name, std::size_t bytes) {
    return failure_of(
        [&] { solo.all_gather(std::string(name, 'n'), std::string(bytes, 'x'), kForever); });
  };
  EXPECT_EQ(gather(4096, 65536), "nothing was thrown");
  EXPECT_EQ(gather(4097, 0),
            "invalid_argument: a collective call's name has 4097 bytes; at most 4096 are allowed");
  EXPECT_TRUE(gather(1, 65537).starts_with("invalid_argument: 'n': 65537 bytes; at most 65536"));
  EXPECT_EQ(failure_of([&] { solo.set_result(std::string(1 << 20, 'x')); }), "nothing was thrown");
  EXPECT_EQ(failure_of([&] { solo.set_result(std::string((1 << 20) + 1, 'x')); }),
            "invalid_argument: set_result: 1048577 bytes of JSON, at most 1048576 fit");
}

TEST_F(Solo, RunsOnceAndAgainWhereItFailed) {
  SoloSession solo = session();
  int calls = 0;
  const auto failing = [&] {
    ++calls;
    throw std::runtime_error("no route");
  };
  EXPECT_THROW(solo.once_per_node("prepare", failing), std::runtime_error);
  EXPECT_THROW(solo.once_per_node("prepare", failing), std::runtime_error);
  solo.once_per_node("prepare", [&] { ++calls; });
  solo.once_per_node("prepare", [&] { ++calls; });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(
      failure_of([&] { solo.once_per_node("inner", [&] { solo.once_per_node("inner", [] {}); }); }),
      "invalid_argument: once_per_node('inner') is called by its own function");
}

TEST_F(Solo, OtherThreadsWaitForTheOneThatRuns) {
  SoloSession solo = session();
  std::promise<void> begun, go_on;
  std::atomic<int> calls = 0;
  std::atomic<bool> ended = false;
  auto first = std::async(std::launch::async, [&] {
    solo.once_per_node("prepare", [&] {
      ++calls;
      begun.set_value();
      go_on.get_future().wait();
      ended = true;
    });
  });
  begun.get_future().wait();
  auto second = std::async(std::launch::async, [&] {
    solo.once_per_node("prepare", [&] { ++calls; });
    return ended.load();
  });
  go_on.set_value();

  first.get();
  EXPECT_TRUE(second.get());
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace train::sdk
