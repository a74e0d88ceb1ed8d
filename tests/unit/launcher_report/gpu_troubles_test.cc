#include "launcher/report/gpu_troubles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(GpuTroubles, NamesNodeGpuRankAndXidOnce) {
  GpuTroubles troubles;
  GpuSample gpu{.gpu = "1", .xids = 2, .last_xid = 13};
  EXPECT_THAT(troubles.sampled("node-a", "3", gpu), IsEmpty());  // of before the run

  gpu.xids = 3;
  gpu.last_xid = 79;
  EXPECT_THAT(troubles.sampled("node-a", "3", gpu),
              ElementsAre("GPU 1 of node-a (rank 3) reported Xid 79: it has fallen off the bus"));
  EXPECT_THAT(troubles.sampled("node-a", "3", gpu), IsEmpty());

  gpu.xids = 4;
  gpu.last_xid = 9999;
  EXPECT_THAT(troubles.sampled("node-a", "3", gpu),
              ElementsAre("GPU 1 of node-a (rank 3) reported Xid 9999"));
}

TEST(GpuTroubles, SaysThatAGpuIsLostOrDoesNotAnswer) {
  GpuTroubles troubles;
  EXPECT_THAT(troubles.sampled("a", "0-1", {.gpu = "0", .state = "not answering"}),
              ElementsAre("GPU 0 of a (ranks 0-1) does not answer its driver"));
  EXPECT_THAT(troubles.sampled("a", "0-1", {.gpu = "0", .state = "unknown"}), IsEmpty());
  EXPECT_THAT(troubles.sampled("a", "0-1", {.gpu = "0", .state = "lost"}),
              ElementsAre("GPU 0 of a (ranks 0-1) is lost: its driver cannot reach it"));
}

TEST(GpuTroubles, NamesProcessesOfNoRun) {
  GpuTroubles troubles;
  EXPECT_THAT(troubles.sampled("a", "0", {.gpu = "0", .foreign = "pid 42 (python3)"}),
              ElementsAre("GPU 0 of a (rank 0) is also used by pid 42 (python3), of no run"));
}

TEST(GpuTroubles, SaysNoMoreThanALimit) {
  GpuTroubles troubles;
  std::size_t said = 0;
  for (int i = 0; i < 1000; ++i)
    said += troubles.sampled("a", "0", {.gpu = "0", .foreign = std::to_string(i)}).size();
  EXPECT_EQ(said, kGpuTroublesMax);
}

}  // namespace
}  // namespace train
