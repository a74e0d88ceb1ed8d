#include "launcher/dashboard/run_view.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace train {
namespace {

/// Feeds a view with records; their seq and time count up.
class RunViewTest : public testing::Test {
 protected:
  void add(const std::string& event) {
    ++seq_;
    view_.add({.seq = seq_,
               .group = seq_,
               .generation = Generation{1},
               .time = time_.empty() ? "t" + std::to_string(seq_) : time_,
               .event = boost::json::parse(event).as_object()});
  }
  void begin(int attempt = 0) {
    add(R"({"event":"attempt_started","attempt":)" + std::to_string(attempt) +
        R"(,"world_size":3,"restore":null,"nodes":[{"name":"a","workers":2},{"name":"b","workers":1}]})");
  }

  RunView view_;
  std::string time_ = {};  // of the next records; empty: by their seq
  std::uint64_t seq_ = 0;
};

TEST_F(RunViewTest, ARunThatRuns) {
  add(R"({"event":"generation_taken","run_id":"r1","host":"vm","pid":7,"build":"1","nodes":["a:1","b:1"]})");
  begin();
  add(R"({"event":"state","state":"running","trigger":"all_started","attempt":0,"reason":"why"})");

  EXPECT_EQ(view_.run_id, "r1");
  EXPECT_EQ(view_.pid, 7);
  EXPECT_EQ(view_.cluster_nodes, (std::vector<std::string>{"a:1", "b:1"}));
  EXPECT_EQ(view_.state, "running");
  EXPECT_EQ(view_.state_since, "t3");
  EXPECT_EQ(view_.reason, "why");
  EXPECT_EQ(view_.began, "t1");
  EXPECT_EQ(view_.ended, "");
  ASSERT_EQ(view_.attempts.size(), 1U);
  EXPECT_EQ(view_.attempts[0].nodes, (std::vector<NodePlace>{{"a", 2, 0}, {"b", 1, 2}}));
  EXPECT_EQ(view_.attempts[0].node_of(1)->name, "a");
  EXPECT_EQ(view_.attempts[0].node_of(2)->name, "b");
  EXPECT_EQ(view_.attempts[0].node_of(3), nullptr);
}

TEST_F(RunViewTest, KnowsWhichNodesAreNotUsedAndWhy) {
  begin();
  add(R"({"event":"node_state","node":"a","state":"drained","reason":"SIGTERM"})");
  add(R"({"event":"node_state","node":"b","state":"quarantined","reason":"it failed"})");
  add(R"({"event":"node_state","node":"c","state":"no such state"})");
  EXPECT_EQ(view_.unused_nodes,
            (std::map<std::string, NodeStateView>{{"a", {"drained", "SIGTERM", "t2"}},
                                                  {"b", {"quarantined", "it failed", "t3"}}}));

  add(R"({"event":"node_state","node":"a","state":"up"})");
  EXPECT_FALSE(view_.unused_nodes.contains("a"));

  add(R"({"event":"generation_taken","run_id":"r1","host":"vm","pid":8,"build":"1","nodes":[]})");
  EXPECT_TRUE(view_.unused_nodes.empty()) << "the next launcher tells what it knows";
}

TEST_F(RunViewTest, AFailedAttemptNamesItsNodeAndIsRestarted) {
  begin();
  add(R"({"event":"attempt_ended","attempt":0,"cause":"rank 2 died","failed":true,"failure":"worker","location":{"rank":2,"node":1}})");
  add(R"({"event":"state","state":"scheduling","trigger":"restart_decided","attempt":0,"reason":""})");
  begin(1);

  EXPECT_EQ(view_.restarts, 1);
  EXPECT_TRUE(view_.attempts[0].failed);
  EXPECT_EQ(view_.attempts[0].ended, "t2");
  EXPECT_EQ(view_.attempts[0].cause, "rank 2 died");
  EXPECT_EQ(view_.attempts[0].root_rank, 2);
  EXPECT_EQ(view_.node_failures, (std::map<std::string, std::int64_t>{{"b", 1}}));
  EXPECT_EQ(view_.find(1), view_.newest());
  EXPECT_EQ(view_.find(2), nullptr);
}

TEST_F(RunViewTest, CheckpointsCountForTheirAttempt) {
  begin();
  add(R"({"event":"checkpoint_committed","attempt":0,"checkpoint":3,"report":9})");
  add(R"({"event":"checkpoint_committed","attempt":7,"checkpoint":4,"report":1})");

  EXPECT_EQ(view_.checkpoint, "checkpoint_000004");
  EXPECT_EQ(view_.checkpoints, 2);
  EXPECT_EQ(view_.attempts[0].checkpoints, 1);
  EXPECT_EQ(view_.attempts[0].checkpoint_report, 9);
}

TEST_F(RunViewTest, ARunThatHasEndedGoesOnWithItsNextLauncher) {
  begin();
  add(R"({"event":"attempt_ended","attempt":0,"cause":"","failed":false})");
  add(R"({"event":"state","state":"stopped","trigger":"ended_by_request","attempt":0,"reason":"Ctrl-C"})");
  add(R"({"event":"run_ended","outcome":"stopped","reason":"Ctrl-C"})");
  EXPECT_EQ(view_.ended, "t4");
  EXPECT_EQ(view_.reason, "Ctrl-C");

  add(R"({"event":"generation_taken","run_id":"r1","host":"vm","pid":8})");

  EXPECT_EQ(view_.ended, "");
  EXPECT_EQ(view_.state, "scheduling");
  EXPECT_EQ(view_.began, "t1");
}

TEST_F(RunViewTest, AnAttemptThatBeginsFromANewerCheckpointIsOne) {
  begin();
  begin();

  EXPECT_EQ(view_.attempts.size(), 1U);
  EXPECT_EQ(view_.attempts[0].began, "t2");
}

// They are counters of Prometheus: they must not go back, whatever is forgotten.
TEST_F(RunViewTest, CountsAttemptsOverAllLaunchersAlthoughItForgetsTheOldest) {
  const int count = static_cast<int>(RunView::kAttemptsMax) + 3;
  std::int64_t begun = 0, failed = 0;
  for (int attempt = 0; attempt < count; ++attempt) {
    begin(attempt);
    add(R"({"event":"attempt_ended","attempt":)" + std::to_string(attempt) +
        R"(,"cause":"rank 2 died","failed":)" + (attempt < 10 ? "true}" : "false}"));
    if (attempt % 100 == 0) add(R"({"event":"generation_taken","run_id":"r1"})");
    ASSERT_GE(view_.attempts_begun, begun);
    ASSERT_GE(view_.attempts_failed, failed);
    begun = view_.attempts_begun;
    failed = view_.attempts_failed;
  }
  EXPECT_EQ(begun, count);
  EXPECT_EQ(failed, 10);
  begin(count - 1);  // the same one
  EXPECT_EQ(view_.attempts_begun, count);
}

TEST_F(RunViewTest, StragglersComeAndGo) {
  begin();
  time_ = "2026-11-26T10:00:30.000000Z";
  add(R"({"event":"straggler","attempt":0,"ranks":[1,2],"node":"a","lasted_s":20,"phase":"data","behind":0.4,"odds":1e-5})");

  ASSERT_EQ(view_.stragglers.size(), 2U);
  EXPECT_EQ(view_.stragglers[1].behind, 0.4);
  EXPECT_EQ(view_.stragglers[1].phase, "data");
  EXPECT_EQ(view_.stragglers[1].since, "2026-11-26T10:00:10.000000Z");

  add(R"({"event":"straggler_cleared","attempt":0,"ranks":[1],"node":"a","lasted_s":60})");
  EXPECT_EQ(view_.stragglers.size(), 1U);
  EXPECT_TRUE(view_.stragglers.contains(2));

  add(R"({"event":"attempt_ended","attempt":0,"cause":"","failed":false})");
  EXPECT_TRUE(view_.stragglers.empty());
}

TEST_F(RunViewTest, StragglersAreOfTheNewestAttemptAndItsLauncher) {
  const char* const slow = R"({"event":"straggler","attempt":0,"ranks":[1],"behind":0.4})";
  add(slow);  // of no attempt
  begin();
  add(R"({"event":"straggler","attempt":1,"ranks":[1],"behind":0.4})");
  EXPECT_TRUE(view_.stragglers.empty());
  add(slow);
  EXPECT_EQ(view_.stragglers.size(), 1U);

  add(R"({"event":"generation_taken","run_id":"r1"})");  // it judges anew
  EXPECT_TRUE(view_.stragglers.empty());
  add(slow);
  begin(1);
  EXPECT_TRUE(view_.stragglers.empty());
}

TEST_F(RunViewTest, RanksThatTheAttemptDoesNotHaveAreNoStragglers) {
  begin();
  add(R"({"event":"straggler","attempt":0,"ranks":[-1,3,9223372036854775807,"x",2.5,null,[0]],"behind":"far","lasted_s":1e308})");
  add(R"({"event":"straggler","attempt":0,"ranks":7})");
  EXPECT_TRUE(view_.stragglers.empty());

  add(R"({"event":"attempt_started","attempt":1,"world_size":9223372036854775807})");
  EXPECT_EQ(view_.attempts.back().world_size, RunView::kWorkersMax);
}

TEST_F(RunViewTest, KnowsTheWorkersOfEachRole) {
  add(R"({"event":"attempt_started","attempt":0,"world_size":3,"roles":["trainer","reader","actor"],
          "nodes":[{"name":"a","workers":2,"roles":[{"role":1,"workers":1},{"role":2,"workers":2}]},
                   {"name":"b","workers":1,"roles":[{"role":1,"workers":1}]}]})");

  const AttemptView& attempt = view_.attempts.back();
  EXPECT_EQ(attempt.world_size, 3);
  EXPECT_EQ(attempt.workers, 7);
  std::string all;
  for (std::int64_t rank = 0; rank < 7; ++rank) {
    const NodePlace* node = attempt.node_of(rank);
    ASSERT_NE(node, nullptr) << rank;
    all += node->name + " " + attempt.role_of(rank) + " " +
           std::to_string(attempt.local_rank(*node, rank)) + "; ";
  }
  EXPECT_EQ(
      all, "a trainer 0; a trainer 1; b trainer 0; a reader 0; b reader 0; a actor 0; a actor 1; ");
  EXPECT_EQ(attempt.node_of(7), nullptr);
  EXPECT_EQ(attempt.role_of(7), "");
}

TEST_F(RunViewTest, RolesOfAnyShapeAreSurvived) {
  add(R"({"event":"attempt_started","attempt":0,"world_size":1,"roles":[7,"x",null],"nodes":[
          {"name":"a","workers":1,"roles":[7,{"role":-1,"workers":1},{"role":1,"workers":-1},
            {"role":99,"workers":1},{"role":2,"workers":9223372036854775807}]}]})");
  EXPECT_EQ(view_.attempts.back().workers, 1);
}

TEST_F(RunViewTest, RecordsOfAnyShapeAreSurvived) {
  for (const char* event :
       {R"({})", R"({"event":7})", R"({"event":"state","state":{"a":1}})",
        R"({"event":"state","state":"<script>"})", R"({"event":"attempt_started","nodes":7})",
        R"({"event":"attempt_started","nodes":[7,{"workers":-5},{"workers":99999999999}]})",
        R"({"event":"attempt_ended","attempt":"x"})",
        R"({"event":"checkpoint_committed","checkpoint":-1})",
        R"({"event":"attempt_started","restore":{"number":-3,"path":7}})"})
    add(event);

  EXPECT_EQ(view_.state, "unknown");
  EXPECT_EQ(view_.checkpoints, 0);
  EXPECT_EQ(view_.last_seq, 9U);
}

TEST_F(RunViewTest, KnowsTheIngestWorkers) {
  begin();
  add(R"({"event":"ingest_workers","attempt":0,"dataset":"train","wanted":2,"serving":1,"deaths":1})");

  EXPECT_EQ(view_.ingest.counts(), (std::map<std::string, IngestCounts>{{"train", {2, 1, 1}}}));
  EXPECT_EQ(view_.ingest.counts(false),
            (std::map<std::string, IngestCounts>{{"train", {2, 0, 1}}}));
}

}  // namespace
}  // namespace train
