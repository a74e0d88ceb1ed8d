#include "launcher/cluster/run_record.h"

#include <sys/stat.h>

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
  TempFolder temp_;
};

TEST_F(RunRecordTest, BeginsAFreshRunAtAttemptZero) {
  auto record = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(record) << record.error().describe();
  EXPECT_FALSE((*record)->resumed());
  EXPECT_EQ((*record)->epoch(), Epoch{1});
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
  EXPECT_EQ((*second)->epoch(), Epoch{2});
  EXPECT_EQ((*second)->start().first_attempt, Attempt{5});
}

TEST_F(RunRecordTest, KeepsTheRunsKeyWhereOnlyItsOwnerReadsIt) {
  const std::string path = temp_.path() + "/vit/.owner";
  auto first = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(first);
  const std::string key = (*first)->owner_key();
  EXPECT_TRUE(owns_run((*first)->run_id(), key));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(text_of(temp_.path() + "/vit/events.jsonl").find(key), std::string::npos);
  first->reset();

  auto second = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->owner_key(), key);
  second->reset();

  std::filesystem::remove(path);
  auto third = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error(), (Error{Errc::Corrupt,
                                  "the key of the run vit is lost: nodes will not believe that it "
                                  "is ours",
                                  "bring back " + path}));
}

TEST_F(RunRecordTest, TakesOverOnesOwnRunsOnly) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  RunRecordOptions options = kOptions;
  options.force = true;
  auto mine = RunRecord::open(job_in(temp_.path()), options);
  ASSERT_TRUE(mine) << mine.error().describe();
  const std::string folder = temp_.path() + "/vit";
  ASSERT_EQ(::chown(folder.c_str(), 4711, 4711), 0);

  auto anothers = RunRecord::open(job_in(temp_.path()), options);

  ASSERT_FALSE(anothers);
  EXPECT_EQ(
      anothers.error(),
      (Error{Errc::Permission,
             "the run vit belongs to uid 4711, not to uid 0, who wants to take it over: " + folder,
             "--force takes over one's own runs only"}));
}

TEST_F(RunRecordTest, RefusesARunThatHasFinishedButNotOneThatFailed) {
  const std::string exit_json = temp_.path() + "/vit/exit.json";
  ASSERT_TRUE(RunRecord::open(job_in(temp_.path()), kOptions));
  std::ofstream(exit_json) << R"({"code": 1})";
  EXPECT_TRUE(RunRecord::open(job_in(temp_.path()), kOptions));
  EXPECT_FALSE(std::filesystem::exists(exit_json));  // it goes on
  std::ofstream(exit_json) << R"({"code": 0})";
  auto finished = RunRecord::open(job_in(temp_.path()), kOptions);
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().message, "the run vit has finished: " + temp_.path() + "/vit");
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
  const std::string first = (*record)->storage_mark();
  EXPECT_EQ(text_of(temp_.path() + "/vit/.probe-1"), first);
  record->reset();

  record = RunRecord::open(job_in(temp_.path()), kOptions);

  ASSERT_TRUE(record);
  EXPECT_NE((*record)->storage_mark(), first);
  EXPECT_EQ(text_of(temp_.path() + "/vit/.probe-2"), (*record)->storage_mark());
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

}  // namespace
}  // namespace train
