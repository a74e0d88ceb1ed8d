#include "launcher/core/ingest_board.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr TimePoint kStart{seconds(1000)};
constexpr NodeId kA{0}, kB{1};
constexpr Attempt kAttempt{3};

JobSpec spec_with(int min, int max) {
  JobSpec spec;
  spec.datasets["train"].ingest.workers = {min, max};
  return spec;
}

/// Two nodes with a rank each, and places for ingest workers in turn on each of them.
Placement placement_of(int places) {
  Placement placement{.world_size = 2,
                      .nodes = {{kA, NodeRank{0}, Rank{0}, 1}, {kB, NodeRank{1}, Rank{1}, 1}},
                      .reason = ""};
  for (int slot = 1; slot <= places; ++slot)
    placement.ingest.push_back({"train", slot, slot % 2 == 1 ? kA : kB});
  return placement;
}

template <class Kind>
std::vector<Kind> only(const IngestBoard::Effects& effects) {
  std::vector<Kind> found;
  for (const auto& effect : effects)
    if (const auto* one = std::get_if<Kind>(&effect)) found.push_back(*one);
  return found;
}

KeepIngest keep(NodeId node, int slot) { return {kAttempt, node, "train", slot, true}; }

IngestServes serves(NodeId node, int slot, std::string name) {
  return {kAttempt,
          node,
          {.dataset = "train",
           .slot = slot,
           .name = name,
           .socket = "/spool/" + name,
           .flight = "10.0.0.1:" + std::to_string(4000 + slot)}};
}

IngestGone gone(NodeId node, int slot, std::string name, std::uint32_t deaths = 1) {
  return {kAttempt,
          node,
          "train",
          slot,
          std::move(name),
          false,
          "it was killed by SIGKILL",
          deaths,
          milliseconds(100)};
}

std::vector<std::string> names(const IngestRoster& roster) {
  std::vector<std::string> all;
  for (const IngestEndpoint& endpoint : roster.endpoints) all.push_back(endpoint.name);
  return all;
}

struct Board {
  explicit Board(int min = 2, int max = 4, int places = 4, bool adopted = false)
      : board(spec_with(min, max), kAttempt, placement_of(places), adopted) {}
  Board& started() {
    board.node_started(kA);
    board.node_started(kB);
    return *this;
  }
  Board& serving() {
    started();
    board.on(serves(kA, 1, "one"), "node-a");
    board.on(serves(kB, 2, "two"), "node-b");
    return *this;
  }
  /// Let the ranks wait and the ingest workers work for so many seconds.
  IngestBoard::Effects busy(int for_seconds, double waits = 1.0, double works = 1.0) {
    IngestBoard::Effects all;
    const auto share = [&](double of) {
      return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(of * second));
    };
    for (int i = 0; i < for_seconds; ++i) {
      ++second;
      const TimePoint now = kStart + seconds(second);
      board.on(DatasetsRead{kAttempt, {{Rank{0}, "train", share(waits)}}, seconds(second)}, now);
      board.on(IngestSampled{kAttempt, kA, "train", 1, "one", share(works)}, now);
      board.on(IngestSampled{kAttempt, kB, "train", 2, "two", share(works)}, now);
      for (auto& effect : board.advance(now)) all.push_back(effect);
    }
    return all;
  }
  IngestBoard board;
  int second = 0;
};

TEST(IngestBoard, OrdersTheLeastNumberOnceANodesRanksHaveStarted) {
  Board test;

  EXPECT_EQ(only<KeepIngest>(test.board.node_started(kA)), (std::vector{keep(kA, 1)}));
  EXPECT_EQ(only<KeepIngest>(test.board.node_started(kB)), (std::vector{keep(kB, 2)}));
  EXPECT_TRUE(test.board.node_started(kB).empty());  // told again
}

TEST(IngestBoard, TellsAllRanksOfThoseThatServe) {
  Board test;
  test.started();

  const auto effects = test.board.on(serves(kA, 1, "one"), "node-a");

  const IngestEndpoint near{"one", "train", "/spool/one", ""};
  const IngestEndpoint far{"one", "train", "", "10.0.0.1:4001"};
  EXPECT_EQ(only<SendRoster>(effects),
            (std::vector{SendRoster{kAttempt, kA, IngestRoster{1, {near}}},
                         SendRoster{kAttempt, kB, IngestRoster{1, {far}}}}));
  EXPECT_EQ(only<IngestChanged>(effects), (std::vector{IngestChanged{kAttempt, "train", 2, 1, 0}}));
  EXPECT_TRUE(test.board.on(serves(kA, 1, "one"), "node-a").empty());  // told again
}

TEST(IngestBoard, LeavesOutWhatANodesRanksCannotReach) {
  Board test;
  test.started();
  IngestServes without_flight = serves(kA, 1, "one");
  without_flight.place.flight.clear();

  test.board.on(without_flight, "node-a");

  EXPECT_EQ(names(test.board.roster_for(kA)), (std::vector<std::string>{"one"}));
  EXPECT_TRUE(test.board.roster_for(kB).endpoints.empty());
}

TEST(IngestBoard, ADeathIsToldAndEndsItsEntry) {
  Board test;
  test.serving();

  const auto effects = test.board.on(gone(kA, 1, "one"), "node-a");

  ASSERT_EQ(only<SendRoster>(effects).size(), 2u);
  EXPECT_EQ(names(*only<SendRoster>(effects)[0].roster), (std::vector<std::string>{"two"}));
  EXPECT_EQ(only<SendRoster>(effects)[0].roster->version, 3u);
  EXPECT_EQ(only<Note>(effects),
            (std::vector{Note{NoteLevel::Info,
                              "an ingest worker for train on node-a ended: it was killed by "
                              "SIGKILL; another one is started"}}));
  EXPECT_EQ(only<IngestChanged>(effects), (std::vector{IngestChanged{kAttempt, "train", 2, 1, 1}}));
}

TEST(IngestBoard, ALateDeathDoesNotEndItsSuccessor) {
  Board test;
  test.serving();
  test.board.on(serves(kA, 1, "one-2"), "node-a");

  EXPECT_TRUE(only<SendRoster>(test.board.on(gone(kA, 1, "one"), "node-a")).empty());

  EXPECT_EQ(names(test.board.roster_for(kA)), (std::vector<std::string>{"one-2", "two"}));
}

TEST(IngestBoard, ManyDeathsAreAWarningWithTheLastLines) {
  Board test;
  test.serving();
  IngestGone often = gone(kA, 1, "one", 3);
  often.often = true;
  often.again = seconds(10);
  often.last_lines = {"no such column"};

  EXPECT_EQ(only<Note>(test.board.on(often, "node-a")),
            (std::vector{Note{NoteLevel::Warning,
                              "an ingest worker for train on node-a ended: it was killed by "
                              "SIGKILL; 3 have ended in its place so far, so the next one is "
                              "started in 10.0 s; its last lines:\n  no such column"}}));
}

TEST(IngestBoard, GrowsWhereThereIsAPlaceAndSaysWhy) {
  Board test;
  test.serving();

  const auto effects = test.busy(12);

  EXPECT_EQ(only<KeepIngest>(effects), (std::vector{keep(kA, 3)}));
  EXPECT_EQ(only<Note>(effects),
            (std::vector{Note{NoteLevel::Info,
                              "3 ingest workers for train instead of 2: workers wait 100 % of "
                              "their time for its rows, ingest workers use 100 % of their CPUs"}}));
}

TEST(IngestBoard, DoesNotGrowAgainWhileOneIsBeingStarted) {
  Board test;
  test.serving();
  test.busy(12);

  EXPECT_TRUE(only<KeepIngest>(test.busy(60)).empty());

  test.board.on(serves(kA, 3, "three"), "node-a");
  EXPECT_EQ(only<KeepIngest>(test.busy(12)), (std::vector{keep(kB, 4)}));
}

TEST(IngestBoard, TheRosterLeavesOneOutBeforeItIsEnded) {
  Board test(1, 4);
  test.started();
  test.board.on(serves(kA, 1, "one"), "node-a");
  test.busy(12);
  test.board.on(serves(kB, 2, "two"), "node-b");
  ASSERT_EQ(test.board.wanted("train"), 2);

  const auto effects = test.busy(70, 0, 0);

  std::vector<std::string> order;
  for (const auto& effect : effects) {
    if (const auto* sent = std::get_if<SendRoster>(&effect))
      order.push_back("roster of " + std::to_string(sent->roster->endpoints.size()));
    if (const auto* ended = std::get_if<EndIngest>(&effect))
      order.push_back("end " + std::to_string(ended->slot));
  }
  EXPECT_EQ(order, (std::vector<std::string>{"roster of 1", "roster of 1", "end 2"}));
}

TEST(IngestBoard, OneThatServesWhenItIsNotWantedAnyMoreIsEnded) {
  Board test(1, 4);
  test.started();

  const auto effects = test.board.on(serves(kB, 2, "two"), "node-b");

  EXPECT_EQ(only<EndIngest>(effects), (std::vector{EndIngest{kAttempt, kB, "train", 2}}));
  EXPECT_TRUE(test.board.roster_for(kA).endpoints.empty());
}

TEST(IngestBoard, ANodeThatIsGoneTakesItsIngestWorkersWithIt) {
  Board test;
  test.serving();

  const auto effects = test.board.node_gone(kB);

  EXPECT_EQ(only<SendRoster>(effects),
            (std::vector{
                SendRoster{kAttempt, kA, IngestRoster{3, {{"one", "train", "/spool/one", ""}}}}}));
}

TEST(IngestBoard, IgnoresPlacesThatItDoesNotHave) {
  Board test;
  test.started();

  for (const int slot : {-1, 0, 5, 1'000'000}) {
    EXPECT_TRUE(test.board.on(serves(kA, slot, "x"), "node-a").empty());
    EXPECT_TRUE(test.board.on(gone(kA, slot, "x"), "node-a").empty());
  }
  EXPECT_TRUE(test.board.on(serves(kB, 1, "x"), "node-b").empty());  // that place is on node-a
  IngestServes other = serves(kA, 1, "x");
  other.place.dataset = "valid";
  EXPECT_TRUE(test.board.on(other, "node-a").empty());
}

SupervisorAttached attached(NodeId node, std::vector<IngestPlace> places, std::uint64_t version) {
  SupervisorAttached event{kAttempt, node};
  event.ingest = std::move(places);
  event.roster_version = version;
  return event;
}

IngestPlace place(int slot, std::string name, std::uint32_t deaths = 0) {
  return {.dataset = "train",
          .slot = slot,
          .name = name,
          .socket = name.empty() ? "" : "/spool/" + name,
          .flight = "f",
          .deaths = deaths};
}

TEST(IngestBoard, ALauncherThatTakesOverTellsNothingBeforeAllSupervisorsHaveAnswered) {
  Board test(1, 4, 4, /*adopted=*/true);

  EXPECT_TRUE(test.board.attached(attached(kA, {place(1, "one"), place(3, "three")}, 9)).empty());
  EXPECT_TRUE(test.board.attached(attached(kB, {place(2, "", 4)}, 8)).empty());
  const auto effects = test.board.found();

  // It goes on with three, one of which is just being started, under a newer version.
  EXPECT_EQ(only<KeepIngest>(effects), (std::vector{keep(kA, 1), keep(kB, 2), keep(kA, 3)}));
  EXPECT_EQ(only<EndIngest>(effects), (std::vector{EndIngest{kAttempt, kB, "train", 4}}));
  ASSERT_EQ(only<SendRoster>(effects).size(), 2u);
  EXPECT_EQ(only<SendRoster>(effects)[0].roster->version, 10u);
  EXPECT_EQ(names(*only<SendRoster>(effects)[0].roster),
            (std::vector<std::string>{"one", "three"}));
  EXPECT_EQ(only<IngestChanged>(effects), (std::vector{IngestChanged{kAttempt, "train", 3, 2, 4}}));
}

TEST(IngestBoard, ASupervisorThatAttachesAgainIsToldAnewAndBelieved) {
  Board test;
  test.serving();

  const auto effects = test.board.attached(attached(kA, {place(1, "one-2", 1)}, 2));

  EXPECT_EQ(only<KeepIngest>(effects), (std::vector{keep(kA, 1)}));
  EXPECT_EQ(only<EndIngest>(effects), (std::vector{EndIngest{kAttempt, kA, "train", 3}}));
  EXPECT_EQ(names(test.board.roster_for(kA)), (std::vector<std::string>{"one-2", "two"}));
  EXPECT_EQ(test.board.roster_for(kA).version, 3u);
}

TEST(IngestBoard, ANodeWithoutRanksServesThoseOfOthersAndGetsNoRosters) {
  constexpr NodeId kC{7};
  Placement placement = placement_of(0);
  placement.nodes.pop_back();  // one node has ranks
  placement.ingest = {{"train", 1, kC}};
  IngestBoard board(spec_with(1, 1), kAttempt, placement, false);

  // The ranks of a single node are others for it.
  EXPECT_EQ(only<KeepIngest>(board.node_started(kC)), (std::vector{keep(kC, 1)}));
  const auto rosters = only<SendRoster>(board.on(serves(kC, 1, "one"), "node-c"));
  ASSERT_EQ(rosters.size(), 1u);
  EXPECT_EQ(rosters[0].node, kA);
  EXPECT_EQ(rosters[0].roster->endpoints,
            (std::vector<IngestEndpoint>{{"one", "train", "", "10.0.0.1:4001"}}));

  // It goes, and comes back.
  const auto gone = only<SendRoster>(board.node_lost(kC));
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_TRUE(gone[0].roster->endpoints.empty());
  EXPECT_EQ(only<KeepIngest>(board.node_started(kC)), (std::vector{keep(kC, 1)}));
}

TEST(IngestBoard, AnAttemptWithoutIngestWorkersSaysNothing) {
  IngestBoard board(JobSpec{}, kAttempt, placement_of(0), false);

  EXPECT_TRUE(board.empty());
  EXPECT_TRUE(board.node_started(kA).empty());
  EXPECT_TRUE(board.attached(attached(kA, {}, 0)).empty());
  EXPECT_TRUE(board.node_gone(kA).empty());
  EXPECT_TRUE(board.advance(kStart).empty());
}

}  // namespace
}  // namespace train
