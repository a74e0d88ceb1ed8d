#include "launcher/cluster/run/run_record.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "launcher/cluster/run/run_registry.h"
#include "launcher/report/goodput_text.h"
#include "lib/net/run_owner.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

JobSpec job_in(const std::string& storage) {
  JobSpec spec;
  spec.run_config.name = "vit";
  spec.run_config.storage_path = storage;
  return spec;
}

const RunRecordOptions kOptions{.unique_name = false, .force = false, .build = "test"};

class RunRecordTest : public testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1); }
  /// Record that attempt 0 has told a worker on `node` to start.
  static void start_a_worker(RunRecord& record, NodeId node) {
    const auto begun =
        record_of(AttemptBegun{.attempt = Attempt{0},
                               .placement = {.world_size = 1,
                                             .nodes = {{node, NodeRank{0}, Rank{0}, 1}},
                                             .reason = "",
                                             .never = false},
                               .node_names = {"a"}});
    const auto starting = record_of(
        StateChanged{.from = RunState::Preparing, .to = RunState::Starting, .attempt = Attempt{0}});
    ASSERT_TRUE(record.journal().append({begun, starting}, "2026-11-21T09:38:00.123456Z"));
  }
  TempFolder temp_;
};

TEST_F(RunRecordTest, BeginsAFreshRunAtAttemptZero) {
  auto record = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(record) << record.error().describe();
  EXPECT_FALSE((*record)->resumed());
  EXPECT_EQ((*record)->start().run_id, (*record)->run_id());
  EXPECT_EQ((*record)->generation(), Generation{1});
  EXPECT_EQ((*record)->start().first_attempt, Attempt{0});
  EXPECT_EQ((*record)->start().last_checkpoint_number, 0u);
  ASSERT_TRUE((*record)->put_specs("command: x\n", "command: [x]\n"));
  EXPECT_EQ(text_of((*record)->folder().spec()), "command: x\n");
}

TEST_F(RunRecordTest, RefusesASecondOwnerAndNamesTheFirst) {
  auto first = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(first);
  auto second = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::AlreadyExists);
  EXPECT_NE(second.error().message.find(fmt::format("{}", ::getpid())), std::string::npos)
      << second.error().message;
}

TEST_F(RunRecordTest, ForgetsARequestToStopAnEarlierLauncher) {
  auto first = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(first);
  const RunFolder folder = (*first)->folder();
  first->reset();
  std::ofstream(folder.stop_request()) << "stop\n";

  auto second = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(second) << second.error().describe();
  EXPECT_FALSE(std::filesystem::exists(folder.stop_request()));
}

TEST_F(RunRecordTest, GoesOnAfterTheLastAttemptUnderAHigherEpochAndTheSameRunId) {
  auto first = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(first);
  const std::string run_id = (*first)->run_id();
  ASSERT_TRUE((*first)->journal().append({{{"event", "attempt_started"}, {"attempt", 4}}}, "t"));
  first->reset();

  auto second = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(second) << second.error().describe();
  EXPECT_TRUE((*second)->resumed());
  EXPECT_EQ((*second)->run_id(), run_id);
  EXPECT_EQ((*second)->generation(), Generation{2});
  EXPECT_EQ((*second)->start().first_attempt, Attempt{5});
  EXPECT_EQ((*second)->start().restarts, 1) << "its first attempt is a restart";
}

TEST_F(RunRecordTest, TakesUpALivingAttemptWithTheTimeThatWasNotedOfIt) {
  auto first = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(first) << first.error().describe();
  const RunFolder folder = (*first)->folder();
  start_a_worker(**first, NodeId{0});
  first->reset();
  int world_size = 0;
  {
    const auto second = RunRecord::open(job_in(temp_.path()), kOptions);
    ASSERT_TRUE(second && (*second)->start().living);
    EXPECT_EQ((*second)->start().restarts, 0) << "its workers go on";
    EXPECT_FALSE((*second)->start().living->noted);
    world_size = (*second)->start().living->placement.world_size;
  }
  const std::string note = folder.goodput_json(Attempt{0});
  std::filesystem::create_directories(std::filesystem::path(note).parent_path());
  std::ofstream(note) << goodput_json(0, world_size, {}, {}, {});

  const auto third = RunRecord::open(job_in(temp_.path()), kOptions);

  ASSERT_TRUE(third && (*third)->start().living);
  ASSERT_TRUE((*third)->start().living->noted);
  EXPECT_EQ((*third)->start().living->noted->world_size, world_size);
}

TEST_F(RunRecordTest, WhoseWorkersMayLiveIsRefusedOnOtherNodes) {
  JobSpec spec = job_in(temp_.path());
  spec.cluster.nodes = {"a:7070", "b:7070"};
  auto first = RunRecord::open(spec, kOptions);
  ASSERT_TRUE(first) << first.error().describe();
  start_a_worker(**first, NodeId{1});
  first->reset();

  using Names = std::vector<std::string>;
  for (const Names& other : {Names{"a:7070"}, Names{"b:7070", "a:7070"}, Names{}}) {
    spec.cluster.nodes = other;
    const auto refused = RunRecord::open(spec, kOptions);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message,
              "attempt 0 of vit began on other nodes than cluster.nodes has there now, and its "
              "workers may still be running");
    EXPECT_EQ(refused.error().hint,
              "resume it with its nodes at their places (a:7070, b:7070); if they are gone, add "
              "--force to restart it from its newest checkpoint");
  }
  std::uint64_t generation = 1;  // a refused launcher takes none
  for (const Names& same : {Names{"a:7070", "b:7070"}, Names{"c:7070", "b:7070", "d:7070"}}) {
    spec.cluster.nodes = same;
    const auto resumed = RunRecord::open(spec, kOptions);
    ASSERT_TRUE(resumed) << resumed.error().describe();
    EXPECT_TRUE((*resumed)->start().living);
    EXPECT_EQ((*resumed)->generation(), Generation{++generation});
  }
  spec.cluster.nodes = {"e:7070"};
  const auto forced = RunRecord::open(spec, {.force = true, .build = "test"});
  ASSERT_TRUE(forced) << forced.error().describe();
  EXPECT_FALSE((*forced)->start().living);
  EXPECT_EQ((*forced)->start().first_attempt, Attempt{1});
  EXPECT_EQ((*forced)->warnings().size(), 1u);
}

// The launcher died between the commit's rename and its journal record.
TEST_F(RunRecordTest, KnowsTheNewestCheckpointOfALivingAttemptWithoutTheJournal) {
  auto first = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(first) << first.error().describe();
  const Attempt attempt{0};
  start_a_worker(**first, NodeId{0});
  const auto put = [&](std::uint64_t number, Attempt of, Generation generation,
                       std::uint64_t index) {
    std::string folder = (*first)->checkpoints().path_of(CheckpointNumber{number});
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/" + std::string(kManifestName))
        << format_manifest({.checkpoint = CheckpointNumber{number},
                            .generation = generation,
                            .attempt = of,
                            .checkpoint_seq = CheckpointSeq{index},
                            .created = "2026-11-21T09:38:00.123456Z"})
               .value();
    return folder;
  };
  put(1, attempt, (*first)->generation(), 1);
  const std::string newest = put(2, attempt, (*first)->generation(), 2);
  put(3, Attempt{7}, (*first)->generation(), 9);  // another attempt's
  put(4, attempt, Generation{77}, 9);             // another launcher's
  first->reset();

  auto second = RunRecord::open(job_in(temp_.path()), kOptions);

  ASSERT_TRUE(second) << second.error().describe();
  const std::optional<LivingAttempt>& living = (*second)->start().living;
  ASSERT_TRUE(living.has_value());
  EXPECT_EQ(living->resolved_seq, 2u);
  EXPECT_EQ(living->resolved_path, newest);
}

// If none of the run's own checkpoints is intact, it begins from there, not from nothing.
TEST_F(RunRecordTest, KeepsTheGivenCheckpointBehindItsOwn) {
  const auto put = [](const std::string& folder, std::uint64_t number) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + std::string(kManifestName))
        << format_manifest({.checkpoint = CheckpointNumber{number},
                            .generation = Generation{1},
                            .attempt = Attempt{0},
                            .checkpoint_seq = CheckpointSeq{number},
                            .created = "2026-11-21T09:38:00.123456Z"})
               .value();
  };
  JobSpec spec = job_in(temp_.path());
  spec.resume_from_checkpoint = temp_.path() + "/given";
  put(spec.resume_from_checkpoint, 7);
  {
    auto first = RunRecord::open(spec, kOptions);
    ASSERT_TRUE(first) << first.error().describe();
    EXPECT_EQ((*first)->start().checkpoint->number, 0u);
    for (const std::uint64_t number : {1, 2})
      put((*first)->checkpoints().path_of(CheckpointNumber{number}), number);
  }
  const auto older_numbers = [&] {
    auto record = RunRecord::open(spec, kOptions);
    EXPECT_TRUE(record) << record.error().describe();
    EXPECT_EQ((*record)->start().checkpoint->number, 2u);
    std::vector<std::uint64_t> numbers;
    for (const CheckpointInfo& older : (*record)->start().older) numbers.push_back(older.number);
    return numbers;
  };

  EXPECT_EQ(older_numbers(), (std::vector<std::uint64_t>{0, 1}));
  std::filesystem::remove_all(spec.resume_from_checkpoint);
  EXPECT_EQ(older_numbers(), std::vector<std::uint64_t>{1});
}

// As above: the failures before that checkpoint must not count under this launcher, nor the next.
TEST_F(RunRecordTest, ACheckpointWithoutItsRecordRefillsTheBudgetsAndGetsOne) {
  JobSpec job = job_in(temp_.path());
  job.run_config.failure_config.max_failures = 3;
  auto first = RunRecord::open(job, kOptions);
  ASSERT_TRUE(first) << first.error().describe();
  start_a_worker(**first, NodeId{0});
  AttemptEnded ended;
  ended.failed = true;
  ended.failure = FailureKind::Worker;
  ASSERT_TRUE((*first)->journal().append({record_of(ended, "rank 0 failed")}, "t"));
  const std::string folder = (*first)->checkpoints().path_of(CheckpointNumber{1});
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/" + std::string(kManifestName))
      << format_manifest({.checkpoint = CheckpointNumber{1},
                          .generation = (*first)->generation(),
                          .checkpoint_seq = CheckpointSeq{1},
                          .created = "2026-11-21T09:38:00.123456Z"})
             .value();
  first->reset();

  for (const char* launcher : {"second", "third"}) {
    auto next = RunRecord::open(job, kOptions);
    ASSERT_TRUE(next) << launcher << ": " << next.error().describe();
    EXPECT_EQ((*next)->start().failures, FailureMemory{}) << launcher;
    next->reset();
  }
  const std::string journal = text_of(temp_.path() + "/vit/events.jsonl");
  const std::size_t record = journal.find("checkpoint_committed");
  EXPECT_NE(record, std::string::npos) << journal;
  EXPECT_EQ(journal.find("checkpoint_committed", record + 1), std::string::npos);
}

TEST_F(RunRecordTest, KeepsTheRunsKeyWhereOnlyItsOwnerReadsIt) {
  const std::string path = temp_.path() + "/vit/.owner";
  auto first = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(first);
  const std::string key = (*first)->owner_key();
  EXPECT_EQ((*first)->run_id(), "vit-" + owner_digest(key));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(text_of(temp_.path() + "/vit/events.jsonl").find(key), std::string::npos);
  first->reset();

  auto second = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->owner_key(), key);
  second->reset();

  std::ofstream(path, std::ios::app) << "\n";  // an editor may add it
  auto edited = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(edited) << edited.error().describe();
  EXPECT_EQ((*edited)->owner_key(), key);
  edited->reset();

  std::filesystem::remove(path);
  auto third = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_FALSE(third);
  EXPECT_EQ(
      third.error(),
      (Error{Errc::Corrupt,
             "the key of the run vit is lost: nodes will not accept this launcher as its owner",
             "bring back " + path}));
  EXPECT_FALSE(std::filesystem::exists(path)) << "a new key would be another's";

  const std::string anothers = make_owner_key();
  std::ofstream(path) << anothers;
  auto fourth = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_FALSE(fourth);
  EXPECT_EQ(fourth.error().message,
            "the key of the run vit belongs to another run: nodes will not accept this launcher as "
            "its owner");
  EXPECT_EQ(text_of(path), anothers);
}

// When many users share a storage_path, one may have made the folder of another's next run.
TEST_F(RunRecordTest, GoesOnWithOnesOwnRunsOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  RunRecordOptions options = kOptions;
  options.force = true;
  auto mine = RunRecord::open(job_in(temp_.path()), options);
  ASSERT_TRUE(mine) << mine.error().describe();
  mine->reset();
  const std::string folder = temp_.path() + "/vit";
  ASSERT_EQ(::chown(folder.c_str(), 4711, 4711), 0);

  for (const bool force : {true, false}) {
    options.force = force;
    auto anothers = RunRecord::open(job_in(temp_.path()), options);
    ASSERT_FALSE(anothers);
    EXPECT_EQ(
        anothers.error(),
        (Error{Errc::Permission,
               "the run vit belongs to uid 4711, not to uid 0, and cannot be resumed: " + folder,
               "only its owner can resume a run; give run_config.name another value"}));
  }
  std::filesystem::remove_all(folder);
  const std::string elsewhere = temp_.path() + "/elsewhere";
  std::filesystem::create_directory(elsewhere);
  std::filesystem::create_directory_symlink(elsewhere, folder);
  EXPECT_EQ(RunRecord::open(job_in(temp_.path()), kOptions).error().message,
            "'" + folder + "' is not a directory");
  EXPECT_TRUE(std::filesystem::is_empty(elsewhere));
}

TEST_F(RunRecordTest, DoesNotGoOnWhereEverybodyCanWrite) {
  ASSERT_TRUE(RunRecord::open(job_in(temp_.path()), kOptions));
  const std::string folder = temp_.path() + "/vit";
  ::chmod(folder.c_str(), 0777);
  EXPECT_EQ(RunRecord::open(job_in(temp_.path()), kOptions).error(),
            (Error{Errc::Permission, "anyone can write to the folder of the run vit: " + folder,
                   "chmod o-w " + folder + ", if its files have not been tampered with"}));
  ::chmod(folder.c_str(), 0775);
  EXPECT_TRUE(RunRecord::open(job_in(temp_.path()), kOptions)) << "a group that its owner chose";
}

TEST_F(RunRecordTest, RefusesARunThatHasFinishedButNotOneThatFailed) {
  const std::string exit_json = temp_.path() + "/vit/exit.json";
  ASSERT_TRUE(RunRecord::open(job_in(temp_.path()), kOptions));
  std::ofstream(exit_json) << R"({"code": 1})";
  EXPECT_TRUE(RunRecord::open(job_in(temp_.path()), kOptions));
  EXPECT_FALSE(std::filesystem::exists(exit_json));  // the run goes on
  std::ofstream(exit_json) << R"({"code": 0})";
  auto finished = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().message, "the run vit has finished: " + temp_.path() + "/vit");
  std::ofstream(exit_json) << R"({"code": 0, "result": ")" << std::string(1u << 20, 'x') << "\"}";
  EXPECT_FALSE(RunRecord::open(job_in(temp_.path()), kOptions)) << "a result of 1 MiB";
}

// Its launcher died after the decision. Whoever resumes it by hand wants it to go on.
TEST_F(RunRecordTest, OneThatWasGivenUpGoesOnOnlyIfSomebodyResumesIt) {
  {
    auto first = RunRecord::open(job_in(temp_.path()), kOptions);
    ASSERT_TRUE(first) << first.error().describe();
    const auto given_up = record_of(StateChanged{.from = RunState::TearingDown,
                                                 .to = RunState::Errored,
                                                 .trigger = RunTrigger::GaveUp,
                                                 .attempt = Attempt{0},
                                                 .reason = "no restart"});
    ASSERT_TRUE((*first)->journal().append({given_up}, "2026-11-21T09:38:00.123456Z"));
  }
  RunRecordOptions restarted = kOptions;
  restarted.restarted = true;
  {
    auto second = RunRecord::open(job_in(temp_.path()), restarted);
    ASSERT_TRUE(second) << second.error().describe();
    EXPECT_EQ((*second)->start().ended, (RunEnded{RunState::Errored, "no restart", {}}));
  }

  {
    auto third = RunRecord::open(job_in(temp_.path()), kOptions);
    ASSERT_TRUE(third) << third.error().describe();
    EXPECT_FALSE((*third)->start().ended);
  }

  auto fourth = RunRecord::open(job_in(temp_.path()), restarted);

  ASSERT_TRUE(fourth) << fourth.error().describe();
  EXPECT_FALSE((*fourth)->start().ended) << "the third one died before it had begun an attempt";
}

TEST_F(RunRecordTest, GivesADefaultNameASuffixWhenItIsTaken) {
  RunRecordOptions options = kOptions;
  options.unique_name = true;
  auto first = RunRecord::open(job_in(temp_.path()), options);
  auto second = RunRecord::open(job_in(temp_.path()), options);
  ASSERT_TRUE(first && second);
  EXPECT_EQ((*first)->name(), "vit");
  EXPECT_EQ((*second)->name(), "vit-2");
}

TEST_F(RunRecordTest, LeavesItsMarkForTheNodesAndTakesThatOfTheLauncherBefore) {
  auto record = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(record);
  const std::string first = (*record)->identity().storage_marker;
  EXPECT_EQ(text_of(temp_.path() + "/vit/.probe-1"), first);
  record->reset();

  record = RunRecord::open(job_in(temp_.path()), kOptions);

  ASSERT_TRUE(record);
  EXPECT_NE((*record)->identity().storage_marker, first);
  EXPECT_EQ(text_of(temp_.path() + "/vit/.probe-2"), (*record)->identity().storage_marker);
  EXPECT_FALSE(std::filesystem::exists(temp_.path() + "/vit/.probe-1"));
}

TEST_F(RunRecordTest, FindsARunByPathByStorageAndByRegistry) {
  ASSERT_TRUE(RunRecord::open(job_in(temp_.path()), kOptions));
  const std::string path = temp_.path() + "/vit";
  EXPECT_EQ(*find_run(path, "/nowhere"), path);
  EXPECT_EQ(*find_run("vit", temp_.path()), path);
  EXPECT_EQ(*find_run("vit", "/nowhere"), path);
  EXPECT_EQ(find_run("other", temp_.path()).error().code, Errc::NotFound);
}

TEST_F(RunRecordTest, ItsSpecsAreReadByItsOwnerOnly) {
  auto record = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(record);
  ASSERT_TRUE((*record)->put_specs("a", "b"));
  EXPECT_TRUE((*record)->sync_specs());
  for (const std::string& path :
       {(*record)->folder().spec(), (*record)->folder().resolved_spec()}) {
    struct stat status {};
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u) << path;
  }
  EXPECT_EQ(text_of((*record)->folder().resolved_spec()), "b");
  std::filesystem::remove((*record)->folder().spec());
  EXPECT_FALSE((*record)->sync_specs());
}

TEST_F(RunRecordTest, ALauncherThatWasReplacedIsNotTheOwner) {
  auto first = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(first);
  EXPECT_TRUE((*first)->check_owner());
  RunRecordOptions options = kOptions;
  options.force = true;
  auto second = RunRecord::open(job_in(temp_.path()), options);
  ASSERT_TRUE(second) << second.error().describe();

  EXPECT_EQ((*first)->check_owner().error().code, Errc::Fenced);
  EXPECT_TRUE((*second)->check_owner());
}

TEST_F(RunRecordTest, FindsARunWhateverItsPathEndsWith) {
  ASSERT_TRUE(RunRecord::open(job_in(temp_.path()), kOptions));
  EXPECT_EQ(*find_run(temp_.path() + "/vit//", "/nowhere"), temp_.path() + "/vit");
  const Error none = find_run("other", temp_.path()).error();
  EXPECT_EQ(none.message,
            fmt::format("no run 'other': it is not a run's folder, and is in neither {0} nor "
                        "{0}/state/trainrun/runs",
                        temp_.path()));
}

}  // namespace
}  // namespace train
