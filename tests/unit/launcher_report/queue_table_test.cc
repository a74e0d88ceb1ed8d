#include "launcher/report/queue_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

constexpr std::int64_t kNowMs = 10'000'000;

PoolRun run(const std::string& name, double claimed, QueuePlace place = {.placed = true}) {
  return {.run_id = name + "-id",
          .run_name = name,
          .owner = "ada",
          .place = place,
          .workers = 4,
          .claimed = {.cpu = claimed, .gpu = claimed},
          .keeps = !place.placed};
}

NodeRow node(const std::string& name, std::vector<PoolRun> runs) {
  NodeRow row;
  row.address = name + ":7070";
  row.answered = true;
  row.name = name;
  row.runs = std::move(runs);
  return row;
}

std::vector<NodeRow> two_nodes() {
  const QueuePlace first{.priority = 5, .since_ms = kNowMs - 300'000};
  const QueuePlace second{.share = 250, .since_ms = kNowMs - 7'320'000};
  PoolRun third = run("old", 0, {.since_ms = kNowMs + 1});
  third.owner.clear();
  third.keeps = false;  // the nodes that answer are too few for it
  third.workers = 0;
  return {node("n1", {run("vit", 0, second), run("llama", 3), run("bert", 0, first)}),
          node("n2", {run("llama", 1), run("bert", 0, first), third})};
}

TEST(QueueTable, ShowsRunsWithWorkersAndThenThoseThatWaitInOrder) {
  EXPECT_EQ(queue_text(two_nodes(), kNowMs),
            "run    owner  state        priority  workers  cores  GPUs  nodes  asked ago\n"
            "llama  ada    has workers         0        4      4     4      2  -\n"
            "bert   ada    waits: 1            5        4      -     -      -  5 min 0 s\n"
            "old    -      needs nodes         0        -      -     -      -  -\n"
            "vit    ada    waits: 3            0        4      -     -      -  2 h 2 min\n");
}

TEST(QueueTable, SaysThatThereIsNothingAndWhichNodesDoNotAnswer) {
  NodeRow silent;
  silent.address = "n3:7070";
  silent.problem = Error{Errc::Unavailable, "n3:7070: connecting: Connection refused", ""};
  EXPECT_EQ(queue_text({node("n1", {}), silent}, kNowMs),
            "no run has or wants anything on these nodes\n"
            "n3:7070: connecting: Connection refused\n");
  EXPECT_EQ(queue_json({silent}, kNowMs), R"({"runs":[],"unreachable":["n3:7070"]})");
}

TEST(QueueTable, TellsProgramsTheSame) {
  EXPECT_EQ(
      queue_json({node("n1", {run("llama", 2),
                              run("bert", 0, {.share = 500, .since_ms = kNowMs - 2500})})},
                 kNowMs),
      R"({"runs":[{"run":"llama","run_id":"llama-id","owner":"ada","state":"placed",)"
      R"("priority":0,"workers":4,"owner_share":0.0,"asked_s_ago":0,)"
      R"("claimed":{"CPU":2.0,"GPU":2.0,"memory":0},"nodes":["n1"],"room_kept_on":[]},)"
      R"({"run":"bert","run_id":"bert-id","owner":"ada","state":"waiting","turn":1,)"
      R"("priority":0,"workers":4,"owner_share":0.5,"asked_s_ago":2,)"
      R"("claimed":{"CPU":0.0,"GPU":0.0,"memory":0},"nodes":[],"room_kept_on":["n1"]}],"unreachable":[]})");
}

TEST(QueueTable, WhatNodesSayDoesNotReachTheTerminalAsItIs) {
  PoolRun evil = run("\x1b[2Jevil", 1);
  evil.owner = "a\nb";
  EXPECT_THAT(queue_text({node("n1", {evil})}, kNowMs),
              testing::AllOf(testing::Not(testing::HasSubstr("\x1b")),
                             testing::Not(testing::HasSubstr("a\nb"))));
}

}  // namespace
}  // namespace train
