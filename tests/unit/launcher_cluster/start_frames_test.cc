#include "launcher/cluster/start_frames.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

TEST(StartFrames, GivesWorkersTheSubmittersEnvironmentWithoutWhatIsTheLaunchers) {
  JobSpec spec;
  spec.env = {{"OMP_NUM_THREADS", "4"}, {"KEY", "env:MY_KEY"}};
  const auto env = worker_environment_base(spec, {{"PATH", "/bin"},
                                                  {"TRAINRUN_TOKEN_FILE", "/t"},
                                                  {"TORCHELASTIC_RUN_ID", "x"},
                                                  {"MY_KEY", "s3cret"}});
  ASSERT_TRUE(env) << env.error().describe();
  EXPECT_EQ(
      *env,
      (std::map<std::string, std::string>{
          {"PATH", "/bin"}, {"OMP_NUM_THREADS", "4"}, {"KEY", "s3cret"}, {"MY_KEY", "s3cret"}}));
}

TEST(StartFrames, ReadsTheEpochMetricWhateverItsType) {
  EXPECT_EQ(epoch_of({{"loss", 0.5}, {"epoch", std::int64_t{7}}}), 7);
  EXPECT_EQ(epoch_of({{"epoch", 3.0}}), 3);
  EXPECT_EQ(epoch_of({{"loss", 0.5}}), -1);
}

TEST(StartFrames, WaitsForATraindThatIsAwayForAsLongAsItsWorkersDo) {
  TempFolder temp;
  ::setenv("XDG_STATE_HOME", (temp.path() + "/state").c_str(), 1);
  JobSpec spec;
  spec.run_config.name = "vit";
  spec.run_config.storage_path = temp.path();
  const auto record = RunRecord::open(spec, {.build = "test"});
  ASSERT_TRUE(record) << record.error().describe();
  FailureConfig& failure = spec.run_config.failure_config;
  failure.node_dead_after = seconds(10);
  for (const auto& [orphan_timeout, waits] :
       {std::pair<Duration, Duration>{std::chrono::minutes(25), std::chrono::minutes(25)},
        std::pair<Duration, Duration>{seconds(0), seconds(10)}}) {
    failure.orphan_timeout = orphan_timeout;
    const DaemonLinkOptions link = link_options(spec.run_config, **record, "test");
    EXPECT_EQ(link.limits.away_limit, waits);
    EXPECT_EQ(milliseconds(link.attach.orphan_timeout_ms), orphan_timeout);
    EXPECT_EQ(link.limits.dead_after, seconds(10));
  }
}

TEST(StartFrames, KnowsEveryErrorByItsName) {
  for (int code = 0; code <= static_cast<int>(Errc::Internal); ++code) {
    EXPECT_EQ(errc_of(to_string(static_cast<Errc>(code))), static_cast<Errc>(code));
  }
}

}  // namespace
}  // namespace train
