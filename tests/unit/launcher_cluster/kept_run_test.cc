#include "launcher/cluster/run/kept_run.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "launcher/cluster/run/run_record.h"
#include "launcher/spec/resolved_yaml.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

constexpr const char* kTime = "2026-11-21T09:38:00.123456Z";
constexpr Attempt kAttempt{0};

class WorkersOfARun : public testing::Test {
 protected:
  void SetUp() override { ::setenv("XDG_STATE_HOME", (temp_.path() + "/state").c_str(), 1); }
  JobSpec job(const std::string& name) const {
    JobSpec spec;
    spec.command = {"/bin/train"};
    spec.working_dir = "/";
    spec.run_config.name = name;
    spec.run_config.storage_path = temp_.path();
    spec.scaling_config.num_workers = {1, 1};
    return spec;
  }
  RunFolder folder(const std::string& name) const { return RunFolder(temp_.path() + "/" + name); }
  /// Let a run end, with workers that stay or without.
  void run(const JobSpec& job, bool workers_stay = true) const {
    auto record = RunRecord::open(job, {});
    ASSERT_TRUE(record) << record.error().describe();
    ASSERT_TRUE((*record)->put_specs("", spec::resolved_yaml(job)));
    const auto begun = record_of(AttemptBegun{.attempt = (*record)->start().first_attempt,
                                              .placement = placement(),
                                              .node_names = {"a"}});
    RunEnded ended{RunState::Finished, "", std::nullopt, workers_stay};
    ASSERT_TRUE((*record)->journal().append({begun, record_of(ended)}, kTime));
  }
  static Placement placement() {
    return {.world_size = 1,
            .nodes = {{NodeId{0}, NodeRank{0}, Rank{0}, 1}},
            .reason = "",
            .never = false};
  }
  TempFolder temp_;
};

TEST_F(WorkersOfARun, TellsWhatTheNextRunNeedsToTakeTheWorkers) {
  run(job("one"));
  const auto kept = read_kept_run(folder("one"), job("two"));
  ASSERT_TRUE(kept) << kept.error().describe();
  EXPECT_TRUE(kept->run_id.starts_with("one-"));
  EXPECT_EQ(kept->generation, Generation{1});
  EXPECT_EQ(kept->workers.attempt, kAttempt);
  EXPECT_EQ(kept->workers.placement.nodes, placement().nodes);
  EXPECT_EQ(kept->workers.differs, "");

  auto next = RunRecord::open(job("two"), {.keeps_workers = true, .kept = *kept});
  ASSERT_TRUE(next) << next.error().describe();
  EXPECT_EQ((*next)->run_id(), kept->run_id);
  EXPECT_EQ((*next)->owner_key(), kept->owner_key);
  EXPECT_EQ((*next)->generation(), Generation{2});
  EXPECT_EQ((*next)->start().first_attempt, kAttempt);
  EXPECT_TRUE((*next)->start().kept);
  EXPECT_EQ((*next)->identity().own_id(), kept->run_id + "+two");
  next->reset();

  // A later launcher of it looks for no such workers, and takes no number of theirs.
  auto again = RunRecord::open(job("two"), {});
  ASSERT_TRUE(again) << again.error().describe();
  EXPECT_EQ((*again)->run_id(), kept->run_id);
  EXPECT_EQ((*again)->generation(), Generation{3});
  EXPECT_EQ((*again)->identity().own_id(), kept->run_id + "+two");
  EXPECT_FALSE((*again)->start().kept);
  EXPECT_EQ((*again)->start().first_attempt, kAttempt);
}

TEST_F(WorkersOfARun, WorkersAreTakenOnce) {
  run(job("one"));
  EXPECT_EQ(taker_of_workers(folder("one")), "");
  ASSERT_TRUE(take_workers(folder("one"), "/runs/two"));

  const auto second = take_workers(folder("one"), "/runs/three");

  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Errc::AlreadyExists);
  EXPECT_EQ(second.error().message, "/runs/two has taken them");
  // Its nodes know the workers by the same id: it does not go on beside the one that has them.
  const auto resumed = RunRecord::open(job("one"), {});
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().message, "the run one has finished: /runs/two has its workers");
}

// As on a full disk: the note cannot be written.
TEST_F(WorkersOfARun, ANoteThatIsNotWrittenTakesNobody) {
  run(job("one"));
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit nothing{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &nothing), 0);
  const auto failed = take_workers(folder("one"), "/runs/two");
  ::setrlimit(RLIMIT_FSIZE, &limit);
  ::signal(SIGXFSZ, before);
  EXPECT_FALSE(failed);
  EXPECT_EQ(taker_of_workers(folder("one")), "");
  EXPECT_TRUE(take_workers(folder("one"), "/runs/three"));
}

TEST_F(WorkersOfARun, ATakersNameSteersNoTerminal) {
  run(job("one"));
  ASSERT_TRUE(take_workers(folder("one"), "/runs/\x1b[2Jtwo"));
  EXPECT_EQ(taker_of_workers(folder("one")), "/runs/two");
}

TEST_F(WorkersOfARun, ARunWhoseWorkersHaveEndedHasNone) {
  run(job("one"), /*workers_stay=*/false);
  const auto kept = read_kept_run(folder("one"), job("two"));
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().message, "no workers have stayed after it");
  EXPECT_FALSE(read_kept_run(folder("none"), job("two")));
}

TEST_F(WorkersOfARun, AFolderThatOthersMayWriteIsNotBelieved) {
  run(job("one"));
  std::filesystem::permissions(folder("one").path(), std::filesystem::perms::all);
  EXPECT_FALSE(read_kept_run(folder("one"), job("two")));
}

TEST_F(WorkersOfARun, AKeyOfAnotherRunIsNotBelieved) {
  run(job("one"));
  run(job("other"));
  std::filesystem::copy_file(folder("other").owner_key(), folder("one").owner_key(),
                             std::filesystem::copy_options::overwrite_existing);
  const auto kept = read_kept_run(folder("one"), job("two"));
  ASSERT_FALSE(kept);
  EXPECT_EQ(kept.error().code, Errc::Corrupt);
}

TEST_F(WorkersOfARun, WorkersOfAnotherJobAreNotUsed) {
  run(job("one"));
  JobSpec other = job("two");
  other.command.emplace_back("--fast");
  other.env["A"] = "b";
  const auto kept = read_kept_run(folder("one"), other);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->workers.differs, "they are of a job with another command, env");
}

TEST(WorkerDifferences, AreOnlyWhatAProcessCannotBeToldLater) {
  const JobSpec before;
  JobSpec now;
  now.train_loop_config["lr"] = 0.1;
  now.run_config.name = "x";
  now.run_config.stop = {{"loss", 1}};
  now.resume_from_checkpoint = "/c";
  now.env["TRAINRUN_LOOP"] = "a.py:f";
  EXPECT_EQ(worker_differences(before, now), "");
  now.scaling_config.num_workers = {3, 3};
  now.run_config.umask.bits = 022;
  EXPECT_EQ(worker_differences(before, now), "scaling_config, run_config.umask");
}

TEST(WhyNoneStay, NamesWhatEndsWorkersWithTheirRun) {
  JobSpec spec;
  EXPECT_EQ(why_none_stay(spec, false), "");
  EXPECT_EQ(why_none_stay(spec, true), "the daemons of a Slurm step end with their run");
  spec.run_config.storage_path = "s3://bucket/runs";
  EXPECT_EQ(why_none_stay(spec, false), "the run is in an object store");
  spec.backend = Backend::Mpi;
  EXPECT_EQ(why_none_stay(spec, false), "a process speaks MPI once in its life");
}

}  // namespace
}  // namespace train
