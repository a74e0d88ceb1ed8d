// A frame may come from a node that runs anybody's code: a rank that no attempt can have leads
// nowhere.
#include "launcher/cluster/controller_frames.h"

#include <gtest/gtest.h>

#include <limits>

namespace train {
namespace {

constexpr NodeId kNode{0};
constexpr Attempt kAttempt{0};
constexpr int kRanks = 4;
constexpr std::int32_t kWrongRanks[] = {-1,
                                        -3,
                                        -1000000,
                                        kRanks,
                                        2000000000,
                                        std::numeric_limits<std::int32_t>::min(),
                                        std::numeric_limits<std::int32_t>::max()};

TEST(ControllerFrames, ARankThatNoAttemptCanHaveIsDropped) {
  for (const std::int32_t rank : kWrongRanks) {
    WorkerResult result;
    result.rank = rank;
    EXPECT_FALSE(decode_of_rank<WorkerResult>(encode(result, kAttempt), kRanks)) << rank;
    WorkerExited exited;
    exited.rank = rank;
    EXPECT_FALSE(to_event(kNode, encode(exited, kAttempt), kRanks)) << rank;
    ReportBatch batch;
    batch.rank = rank;
    batch.count = 1;
    EXPECT_FALSE(to_event(kNode, encode(batch, kAttempt), kRanks)) << rank;
    WorkersStarted started;
    started.workers = {{0, 1}, {rank, 2}};
    EXPECT_FALSE(to_event(kNode, encode(started, kAttempt), kRanks)) << rank;
    AttemptSnapshot snapshot;
    snapshot.phase = "running";
    snapshot.alive = {{rank, 1, true, 0}};
    EXPECT_FALSE(to_event(kNode, encode(snapshot, kAttempt), kRanks)) << rank;
  }
}

TEST(ControllerFrames, ARankOfTheRunIsTaken) {
  WorkerResult result;
  result.rank = kRanks - 1;
  EXPECT_EQ(decode_of_rank<WorkerResult>(encode(result, kAttempt), kRanks)->rank, kRanks - 1);
  WorkersStarted started;
  started.workers = {{0, 1}, {kRanks - 1, 2}};
  EXPECT_TRUE(to_event(kNode, encode(started, kAttempt), kRanks));
}

}  // namespace
}  // namespace train
