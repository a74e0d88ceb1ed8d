#include "launcher/cluster/start_frames.h"

#include <gtest/gtest.h>

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

TEST(StartFrames, KnowsEveryErrorByItsName) {
  for (int code = 0; code <= static_cast<int>(Errc::Internal); ++code) {
    EXPECT_EQ(errc_of(to_string(static_cast<Errc>(code))), static_cast<Errc>(code));
  }
}

}  // namespace
}  // namespace train
