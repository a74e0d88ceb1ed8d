// What a supervisor takes of its workers when a launcher asks: stacks and profiles, of real shells.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/profile/profile_codec.h"
#include "lib/stacks/stacks_codec.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

constexpr const char* kWaits = "exec sleep 1000";

/// Return the pids whose stacks come, by rank, for an order for these ranks.
std::map<std::int32_t, std::int64_t> stacks_of(SupervisorProcess& supervisor,
                                               const std::vector<std::int32_t>& ranks) {
  static std::uint64_t request = 0;
  supervisor.send(TakeStacks{.request = ++request, .ranks = ranks});
  std::map<std::int32_t, std::int64_t> pids;
  for (;;) {
    const auto taken = supervisor.wait_for<StacksTaken>();
    EXPECT_EQ(taken.request, request);
    EXPECT_EQ(taken.error, "");
    for (const WorkerStacks& worker : taken.workers) {
      const auto stacks = decode_stacks(worker.stacks);
      EXPECT_TRUE(stacks) << worker.rank;
      EXPECT_FALSE(stacks->threads.empty()) << worker.rank;
      EXPECT_TRUE(pids.emplace(worker.rank, stacks->pid).second);
    }
    if (taken.last) return pids;
  }
}

TEST(Stacks, AreThoseOfTheRanksThatWereAskedFor) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  const WorkersStarted started = supervisor.start({kWaits, kWaits, "exit 3"});
  supervisor.wait_for<WorkerExited>();
  const auto pid = [&](std::size_t rank) { return std::int64_t{started.workers.at(rank).pid}; };

  using Pids = std::map<std::int32_t, std::int64_t>;
  EXPECT_EQ(stacks_of(supervisor, {1}), (Pids{{1, pid(1)}}));
  EXPECT_EQ(stacks_of(supervisor, {}), (Pids{{0, pid(0)}, {1, pid(1)}})) << "rank 2 has ended";
  EXPECT_EQ(stacks_of(supervisor, {2}), Pids{});
}

/// Return the answer to an order.
std::pair<std::string, std::string> profile_of(SupervisorProcess& supervisor,
                                               const TakeProfile& order) {
  supervisor.send(order);
  std::string data;
  for (;;) {
    const auto taken = supervisor.wait_for<ProfileTaken>();
    EXPECT_EQ(taken.request, order.request);
    data += taken.data;
    if (taken.last) return {data, taken.error};
  }
}

TEST(Profiles, AreOfTheRankThatWasAskedForAndItsProgramFirst) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  const WorkersStarted started = supervisor.start({kWaits, "(exec sleep 999) & exec sleep 1000"});

  const auto [data, error] =
      profile_of(supervisor, {.request = 7, .rank = 0, .kind = "wall", .time_ms = 200});

  EXPECT_EQ(error, "");
  const auto profile = decode_profile(data);
  ASSERT_TRUE(profile);
  EXPECT_EQ(profile->facts.kind, ProfileKind::Wall);
  EXPECT_EQ(profile->facts.pid, started.workers.at(0).pid);
  EXPECT_GT(samples_of(*profile), 0u);
  EXPECT_THAT(profile->facts.executable, testing::HasSubstr("sleep"));

  const auto [both, failed] =
      profile_of(supervisor, {.request = 8, .rank = 1, .kind = "wall", .time_ms = 200});
  EXPECT_EQ(failed, "");
  const auto of_both = decode_profile(both);
  ASSERT_TRUE(of_both);
  EXPECT_EQ(of_both->facts.pid, started.workers.at(1).pid);
}

TEST(Profiles, OfWhomNoneCanBeTakenAreRefused) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.start({kWaits, "exit 3"});
  supervisor.wait_for<WorkerExited>();
  const auto refusal = [&](const TakeProfile& order) {
    const auto [data, error] = profile_of(supervisor, order);
    EXPECT_EQ(data, "");
    return error;
  };

  EXPECT_EQ(refusal({.request = 1, .rank = 0, .kind = "heap", .time_ms = 10}),
            "this traind knows no profile of kind 'heap'");
  for (const std::int32_t rank : {1, 2, -1})
    EXPECT_EQ(refusal({.request = 2, .rank = rank, .kind = "wall", .time_ms = 10}),
              "rank " + std::to_string(rank) + " has no worker now");
  supervisor.send(TakeProfile{.request = 3, .rank = 0, .kind = "wall", .time_ms = 60000});
  EXPECT_EQ(refusal({.request = 4, .rank = 0, .kind = "wall", .time_ms = 10}),
            "another profile of rank 0 is being taken");
}

}  // namespace
}  // namespace train
