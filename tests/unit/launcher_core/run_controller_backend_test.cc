#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/model/backend_profile.h"
#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

using testing::ElementsAre;

JobSpec of_jax() {
  JobSpec spec = two_workers();
  spec.backend = Backend::Jax;
  return spec;
}

TEST(RunControllerBackend, WorkersAreToldOfThePortsOfAllNodes) {
  Driven d(of_jax());
  d.handle(node_up(kNodeA));
  const auto prepares = only<Prepare>(d.handle(node_up(kNodeB)));
  ASSERT_EQ(prepares.size(), 2u);
  EXPECT_EQ(prepares[1].ports_per_worker, 1);
  EXPECT_FALSE(prepares[1].bind_master);
  EXPECT_TRUE(prepares[0].bind_master);

  d.handle(AttemptPrepared{kFirst, kNodeB, 0, {}, {42}});
  const auto starts = only<Start>(d.handle(AttemptPrepared{kFirst, kNodeA, 41000, {}, {41}}));

  ASSERT_EQ(starts.size(), 2u);
  for (const Start& start : starts) {
    EXPECT_EQ(start.master_port, 41000u);
    EXPECT_THAT(*start.peers, ElementsAre("10.0.0.1:41", "10.0.0.2:42"));
  }
}

TEST(RunControllerBackend, ANodeThatHoldsOtherPortsThanAskedForStartsNothing) {
  Driven d(of_jax());
  d.nodes();

  const auto stops = only<StopGroup>(d.handle(AttemptPrepared{kFirst, kNodeB, 0, {}, {}}));

  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].node, kNodeA);
  EXPECT_THAT(stops[0].reason, testing::HasSubstr("did not hold the ports that were asked for"));
}

TEST(RunControllerBackend, TheBackendsCallsAndTheWorkersHaveNumbersOfTheirOwn) {
  Driven d(two_workers());
  d.running();
  const auto join = [&](Rank rank, std::uint64_t sequence, const std::string& name) {
    return only<SendCollective>(d.handle(CollectiveJoined{kFirst, rank, sequence, name, "x"}));
  };
  EXPECT_TRUE(join(Rank{0}, 1, "barrier").empty());
  EXPECT_TRUE(join(Rank{0}, kBackendCollectives + 1, "MPI barrier").empty());
  // More of them than a tracker remembers push out none of the workers' answers.
  for (std::uint64_t i = 2; i < 80; ++i) {
    join(Rank{0}, kBackendCollectives + i, "MPI barrier");
    EXPECT_EQ(join(Rank{1}, kBackendCollectives + i, "MPI barrier").size(), 2u);
  }

  EXPECT_EQ(join(Rank{1}, 1, "barrier").size(), 2u);
  const auto again = join(Rank{0}, 1, "barrier");

  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].error, "");
}

TEST(RunControllerBackend, ARankThatHasEndedFailsTheBackendsCallsThatWaitForIt) {
  Driven d(two_workers());
  d.running();
  d.handle(CollectiveJoined{kFirst, Rank{0}, kBackendCollectives + 1, "MPI barrier", ""});

  const auto told = only<SendCollective>(d.handle(RankExited{kFirst, Rank{1}, exited(0)}));

  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].sequence, kBackendCollectives + 1);
  EXPECT_EQ(told[0].error, "'MPI barrier' cannot complete: rank 1 has ended without calling it");
}

}  // namespace
}  // namespace train
