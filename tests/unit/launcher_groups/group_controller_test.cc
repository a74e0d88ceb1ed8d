#include "launcher/core/groups/group_controller.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "lib/base/exit_code.h"

namespace train {
namespace {

const TimePoint kStart = TimePoint{} + seconds(1000);

template <class T>
std::vector<T> all(const GroupsActions& actions) {
  std::vector<T> found;
  for (const GroupsAction& action : actions)
    if (const auto* one = std::get_if<T>(&action)) found.push_back(*one);
  return found;
}

std::string told(const GroupsActions& actions) {
  std::string text;
  for (const TellGroups& one : all<TellGroups>(actions))
    text += (text.empty() ? "" : "; ") +
            (one.group < 0 ? "" : "group " + std::to_string(one.group) + " ") + one.text;
  return text;
}

/// All groups run.
GroupController running(GroupsSpec spec) {
  GroupController groups(std::move(spec));
  groups.begin(kStart);
  groups.handle(LighthouseReady{}, kStart);
  return groups;
}

const GroupEnded kFirstFailed{.group = 0, .code = 3, .cause = "rank 1 exited with 3"};

TEST(Groups, StartOnceTheLighthouseIsUp) {
  GroupController groups({.groups = 2});

  EXPECT_EQ(groups.begin(kStart), GroupsActions{StartLighthouse{}});
  EXPECT_EQ(groups.handle(LighthouseReady{}, kStart),
            (GroupsActions{StartReplicaGroup{0}, StartReplicaGroup{1}}));
}

TEST(Groups, StartAtOnceUnderALighthouseOfTheUsers) {
  GroupController groups({.groups = 2, .lighthouse = false});

  EXPECT_EQ(groups.begin(kStart), (GroupsActions{StartReplicaGroup{0}, StartReplicaGroup{1}}));
  EXPECT_EQ(groups.next_deadline(), std::nullopt);
}

TEST(Groups, ThatFinishedEarlierAreNotStartedAgain) {
  GroupController one({.groups = 2, .finished = {0}}), both({.groups = 2, .finished = {0, 1}});

  one.begin(kStart);
  EXPECT_EQ(one.handle(LighthouseReady{}, kStart), GroupsActions{StartReplicaGroup{1}});
  EXPECT_EQ(both.begin(kStart), GroupsActions{EndGroups{}});
}

TEST(Groups, EndWellWhenAllHaveFinished) {
  GroupController groups = running({.groups = 2});

  EXPECT_TRUE(all<EndGroups>(groups.handle(GroupEnded{.group = 0}, kStart)).empty());
  EXPECT_EQ(all<EndGroups>(groups.handle(GroupEnded{.group = 1}, kStart)),
            std::vector<EndGroups>{{}});
}

TEST(Groups, GoOnWithoutOneThatFailedAndEndWithItsCode) {
  GroupController groups = running({.groups = 3, .min_groups = 2});

  const auto failed = groups.handle(kFirstFailed, kStart);
  EXPECT_EQ(told(failed),
            "group 0 failed: rank 1 exited with 3; 2 of 3 groups are left, and go on");
  EXPECT_TRUE(all<StopReplicaGroup>(failed).empty());

  groups.handle(GroupEnded{.group = 1}, kStart);
  EXPECT_EQ(all<EndGroups>(groups.handle(GroupEnded{.group = 2}, kStart)),
            (std::vector<EndGroups>{{3, "group 0 failed: rank 1 exited with 3", 0}}));
}

TEST(Groups, StopWhenTooFewAreLeft) {
  GroupController groups = running({.groups = 3, .min_groups = 3});

  const auto failed = groups.handle(kFirstFailed, kStart);
  EXPECT_EQ(all<StopReplicaGroup>(failed), (std::vector<StopReplicaGroup>{{1}, {2}}));
  EXPECT_EQ(told(failed),
            "group 0 failed: rank 1 exited with 3; 2 of 3 groups are left, and "
            "backend_config.min_replicas is 3: they are stopped");

  groups.handle(GroupEnded{.group = 1, .code = exit_code::kRequeue}, kStart);
  const auto last =
      groups.handle(GroupEnded{.group = 2, .code = 1, .cause = "it did not leave"}, kStart);
  EXPECT_EQ(all<EndGroups>(last),
            (std::vector<EndGroups>{{3, "group 0 failed: rank 1 exited with 3", 0}}))
      << "the first failure counts";
}

TEST(Groups, OneWhoseTrainRunWasKilledGoesOn) {
  GroupController groups = running({.groups = 2});
  const GroupEnded killed{.group = 1, .code = 137, .killed = true};

  EXPECT_EQ(all<StartReplicaGroup>(groups.handle(killed, kStart)),
            std::vector<StartReplicaGroup>{{1}});
  EXPECT_EQ(told(groups.handle(killed, kStart + kSoonDead)),
            "group 1 its train-run was killed by signal 9: it goes on")
      << "it had lived: the count begins anew";
  EXPECT_EQ(all<StartReplicaGroup>(groups.handle(killed, kStart + kSoonDead)).size(), 1u);
  EXPECT_EQ(told(groups.handle(killed, kStart + kSoonDead)),
            "group 1 failed: its train-run was killed by signal 9, 3 times in a row; 1 of 2 groups "
            "is left, and go on");
}

TEST(Groups, StopTogetherAndCanGoOn) {
  GroupController groups = running({.groups = 2});

  const auto asked = groups.handle(GroupsStopAsked{exit_code::kInterrupted}, kStart);
  EXPECT_EQ(all<StopReplicaGroup>(asked), (std::vector<StopReplicaGroup>{{0}, {1}}));
  EXPECT_EQ(told(asked), "stopping: 2 groups make their checkpoints");
  EXPECT_EQ(
      all<StopReplicaGroup>(groups.handle(GroupsStopAsked{exit_code::kInterrupted}, kStart)).size(),
      2u)
      << "a second Ctrl-C is theirs, too";

  EXPECT_TRUE(all<StartReplicaGroup>(
                  groups.handle(GroupEnded{.group = 0, .code = 137, .killed = true}, kStart))
                  .empty());
  EXPECT_EQ(
      all<EndGroups>(groups.handle(GroupEnded{.group = 1, .code = exit_code::kRequeue}, kStart)),
      (std::vector<EndGroups>{{exit_code::kInterrupted, ""}}));
}

TEST(Groups, AStopThatComesTooLateIsNone) {
  GroupController groups = running({.groups = 1});
  groups.handle(GroupsStopAsked{exit_code::kInterrupted}, kStart);

  EXPECT_EQ(all<EndGroups>(groups.handle(GroupEnded{}, kStart)), std::vector<EndGroups>{{}});
}

TEST(Groups, StopBeforeTheyHaveBegun) {
  GroupController groups({.groups = 2});
  groups.begin(kStart);

  EXPECT_EQ(all<EndGroups>(groups.handle(GroupsStopAsked{exit_code::kRequeue}, kStart)),
            (std::vector<EndGroups>{{exit_code::kRequeue, ""}}));
  EXPECT_TRUE(groups.handle(LighthouseReady{}, kStart).empty()) << "it came up too late";
  EXPECT_TRUE(groups.handle(LighthouseEnded{"was killed by SIGKILL"}, kStart).empty());
}

TEST(Groups, AFailureCountsMoreThanAGroupThatSomebodyStopped) {
  GroupController groups = running({.groups = 2});
  groups.handle(GroupEnded{.group = 1, .code = exit_code::kInterrupted}, kStart);

  EXPECT_EQ(all<EndGroups>(
                groups.handle(GroupEnded{.group = 0, .code = 3, .cause = "it exited"}, kStart)),
            (std::vector<EndGroups>{{3, "group 0 failed: it exited", 0}}));
}

TEST(Groups, AStopHasItsCause) {
  GroupController groups = running({.groups = 1});
  groups.handle(GroupsStopAsked{exit_code::kUnavailable, "traind cannot stay"}, kStart);

  EXPECT_EQ(
      all<EndGroups>(groups.handle(GroupEnded{.group = 0, .code = exit_code::kRequeue}, kStart)),
      (std::vector<EndGroups>{{exit_code::kUnavailable, "traind cannot stay"}}));
}

TEST(Groups, OneThatSomebodyStopsLeavesTheOthers) {
  GroupController groups = running({.groups = 2});

  EXPECT_EQ(told(groups.handle(GroupEnded{.group = 1, .code = exit_code::kInterrupted}, kStart)),
            "group 1 was stopped; 1 of 2 groups is left, and go on");
  EXPECT_EQ(all<EndGroups>(groups.handle(GroupEnded{.group = 0}, kStart)),
            (std::vector<EndGroups>{{exit_code::kInterrupted, "group 1 was stopped", 1}}));
}

TEST(Groups, AreNotStartedUnderALighthouseThatCannotStart) {
  GroupController groups({.groups = 2});
  groups.begin(kStart);

  EXPECT_EQ(groups.handle(LighthouseEnded{"exited with 1: no such option"}, kStart),
            (GroupsActions{EndGroups{exit_code::kUnavailable,
                                     "the lighthouse exited with 1: no such option"}}));
}

TEST(Groups, ALighthouseThatDiesIsStartedAgainAtOnceThenLater) {
  GroupController groups = running({.groups = 2});
  TimePoint now = kStart + kSoonDead;

  const auto first = groups.handle(LighthouseEnded{"was killed by SIGKILL"}, now);
  EXPECT_EQ(all<StartLighthouse>(first).size(), 1u);
  EXPECT_EQ(told(first), "the lighthouse was killed by SIGKILL: it is started again");
  EXPECT_EQ(told(groups.handle(LighthouseReady{}, now)), "the lighthouse is up again");

  const auto second = groups.handle(LighthouseEnded{"exited with 1"}, now);
  EXPECT_TRUE(all<StartLighthouse>(second).empty());
  EXPECT_EQ(groups.next_deadline(), now + milliseconds(250));
  EXPECT_TRUE(groups.tick(now).empty());
  now += milliseconds(250);
  EXPECT_EQ(groups.tick(now), GroupsActions{StartLighthouse{}});

  groups.handle(LighthouseReady{}, now);
  now += kSoonDead;
  EXPECT_EQ(all<StartLighthouse>(groups.handle(LighthouseEnded{"exited with 1"}, now)).size(), 1u)
      << "it had lived: the count begins anew";
}

TEST(Groups, StopWhenTheLighthouseCannotStay) {
  GroupController groups = running({.groups = 2});
  TimePoint now = kStart;
  GroupsActions last;
  for (int i = 0; i < kLighthouseDeathsMax; ++i) {
    last = groups.handle(LighthouseEnded{"exited with 1"}, now);
    if (const auto next = groups.next_deadline()) now = *next;
    groups.tick(now);
  }
  EXPECT_EQ(all<StopReplicaGroup>(last).size(), 2u);
  EXPECT_EQ(told(last),
            "the lighthouse ended 10 times in a row; at last it exited with 1: the groups are "
            "stopped");
  groups.handle(GroupEnded{.group = 0, .code = exit_code::kRequeue}, now);
  EXPECT_EQ(all<EndGroups>(groups.handle(GroupEnded{.group = 1, .code = exit_code::kRequeue}, now)),
            (std::vector<EndGroups>{
                {exit_code::kUnavailable,
                 "the lighthouse ended 10 times in a row; at last it exited with 1"}}));
}

TEST(Groups, ALighthouseThatDoesNotComeUpIsKilled) {
  GroupController groups({.groups = 1});
  groups.begin(kStart);

  EXPECT_EQ(groups.next_deadline(), kStart + kLighthouseStartMax);
  EXPECT_EQ(groups.tick(kStart + kLighthouseStartMax), GroupsActions{KillLighthouse{}});
}

TEST(Groups, OneWhoseProgramIsWrongIsGivenUp) {
  GroupController groups = running({.groups = 2});
  const GroupAttemptFailed soon{.group = 1, .lived = seconds(2), .cause = "rank 0 exited with 1"};
  GroupAttemptFailed killed = soon, late = soon;
  killed.by_itself = false;
  late.lived = kSoonFailed;

  for (const GroupAttemptFailed& between : {killed, late}) {
    for (int i = 1; i < kSoonFailedMax; ++i)
      EXPECT_EQ(told(groups.handle(soon, kStart)),
                "group 1 an attempt failed: rank 0 exited with 1");
    EXPECT_TRUE(all<StopReplicaGroup>(groups.handle(between, kStart)).empty());
  }
  for (int i = 1; i < kSoonFailedMax; ++i) groups.handle(soon, kStart);
  EXPECT_EQ(groups.handle(soon, kStart), GroupsActions{StopReplicaGroup{1}});
  EXPECT_TRUE(groups.handle(soon, kStart).empty()) << "once";

  EXPECT_EQ(told(groups.handle(GroupEnded{.group = 1, .code = exit_code::kRequeue}, kStart)),
            "group 1 failed: rank 0 exited with 1 (5 times in a row, within 10.0 s of its start: a "
            "restart would end the same way); 1 of 2 groups is left, and go on");
  EXPECT_EQ(all<EndGroups>(groups.handle(GroupEnded{.group = 0}, kStart)).at(0).code, 1);
}

TEST(Groups, WithALimitOfRestartsItAloneCounts) {
  GroupController groups = running({.groups = 1, .endless = false});

  for (int i = 0; i < 2 * kSoonFailedMax; ++i)
    EXPECT_TRUE(
        all<StopReplicaGroup>(groups.handle(GroupAttemptFailed{.lived = seconds(1)}, kStart))
            .empty());
}

}  // namespace
}  // namespace train
