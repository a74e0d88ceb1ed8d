#include "launcher/report/check_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::HasSubstr;
using testing::Not;

CheckedNode fine(const std::string& name) {
  CheckedNode node;
  node.node.address = name + ":7070";
  node.node.answered = true;
  node.node.name = name;
  node.node.build = "1.0.0";
  node.node.total.gpu = node.node.free.gpu = 8;
  node.node.sample.emplace();
  node.node.sample->spool_free_bytes = 100ll << 30;
  node.probe = NodeProbe{.clock_ms = 2, .clock_within_ms = 1, .sum_ms = 0.5};
  return node;
}

CheckContext context() { return {"1.0.0", true, "/nfs/runs", ""}; }

CheckTable table_of(const CheckedNode& node) { return check_table({node, fine("n2")}, context()); }

/// What is said about the check of the first node.
std::string said(const CheckTable& table, const std::string& check) {
  for (std::size_t i = 0; i < table.checks.size(); ++i)
    if (table.checks[i] == check) return table.rows[0].cells[i].what;
  return "no such check";
}

TEST(CheckTable, OfNodesThatAreFineIsGood) {
  const CheckTable table = check_table({fine("n1"), fine("n2")}, context());
  EXPECT_TRUE(table.all_good());
  EXPECT_EQ(checks_text(table),
            "node  answers  version  takes work  disk       GPUs    clock  ports  storage  locked "
            "memory  all-reduce\n"
            "n1    ok       ok       ok          100.0 GiB  8 of 8  +2 ms  ok     ok       no "
            "limit       0.5 ms\n"
            "n2    ok       ok       ok          100.0 GiB  8 of 8  +2 ms  ok     ok       no "
            "limit       0.5 ms\n");
}

TEST(CheckTable, ANodeThatDoesNotAnswerIsNamedByItsAddress) {
  CheckedNode silent;
  silent.node.address = "n1:7070";
  silent.node.problem = Error{Errc::Unavailable, "Connection refused", "start it"};
  const CheckTable table = table_of(silent);
  EXPECT_FALSE(table.all_good());
  EXPECT_THAT(checks_text(table), HasSubstr("\nn1:7070  ! no "));
  EXPECT_THAT(checks_text(table),
              HasSubstr("\nn1:7070: answers: Connection refused\n  start it\n"));
}

TEST(CheckTable, SaysWhatIsWrongWithANode) {
  CheckedNode node = fine("n1");
  node.node.build = "0.0.9";
  EXPECT_EQ(said(table_of(node), "version"), "traind 0.0.9 is there, train-run 1.0.0 here");
  node = fine("n1");
  node.node.draining = true;
  node.node.draining_because = "SIGTERM";
  EXPECT_EQ(said(table_of(node), "takes work"), "it drains: SIGTERM");
  node = fine("n1");
  node.node.sample->spool_free_bytes = 5 << 20;
  EXPECT_EQ(said(table_of(node), "disk"), "5.0 MiB are free for output and checkpoints in transit");
  node = fine("n1");
  node.node.gpus = {{.gpu = "3", .foreign = "pid 7 (python3)"}};
  EXPECT_EQ(said(table_of(node), "GPUs"),
            "GPU 3 is in use by pid 7 (python3), which belongs to no run");
  node.node.gpus = {{.gpu = "3", .state = "lost"}};
  EXPECT_EQ(said(table_of(node), "GPUs"), "GPU 3 is lost");
  node = fine("n1");
  node.node.free.gpu = 0;
  EXPECT_EQ(said(table_of(node), "GPUs"), "runs use all its GPUs");
  node.node.total.gpu = 0;
  EXPECT_EQ(said(table_of(node), "GPUs"), "it has no GPU");
}

TEST(CheckTable, SaysWhatIsWrongBetweenNodes) {
  CheckedNode node = fine("n1");
  node.probe->clock_ms = -90'500;
  EXPECT_EQ(said(table_of(node), "clock"), "its clock differs by -90.5 s");
  node.probe->clock_within_ms = 90'000;  // the network is too slow to tell
  EXPECT_EQ(said(table_of(node), "clock"), "");
  node = fine("n1");
  node.probe->unreachable = {"n2", "n3"};
  EXPECT_EQ(said(table_of(node), "ports"), "it cannot connect to n2, n3");
  node.probe->absent = {"n4"};
  EXPECT_EQ(said(table_of(node), "ports"), "n4 did not reach the meeting");
  node = fine("n1");
  node.probe->storage_missing = {"n2"};
  EXPECT_EQ(said(table_of(node), "storage"), "in /nfs/runs, it does not see the files of n2");
  node.probe->storage_error = "making a folder: Permission denied";
  EXPECT_EQ(said(table_of(node), "storage"),
            "it cannot write to /nfs/runs: making a folder: Permission denied");
  node = fine("n1");
  node.probe->locked_memory = 64 << 10;
  EXPECT_EQ(said(table_of(node), "locked memory"),
            "workers may lock only 64.0 KiB of memory, too little for InfiniBand");
  node = fine("n1");
  node.probe->sum_ms.reset();
  EXPECT_EQ(said(table_of(node), "all-reduce"), "the sum over all nodes is wrong or did not come");
  node = fine("n1");
  node.probe = NodeProbe{.error = "rank 0 at n2:1: Connection refused"};
  EXPECT_EQ(said(table_of(node), "ports"),
            "it does not reach the others: rank 0 at n2:1: Connection refused");
}

TEST(CheckTable, WithoutProbesIsNotGood) {
  CheckContext without = context();
  without.no_probe = "its run ended with 69";
  CheckedNode node = fine("n1");
  node.probe.reset();
  const CheckTable table = check_table({node}, without);
  EXPECT_FALSE(table.all_good());
  EXPECT_THAT(checks_text(table),
              HasSubstr("the checks between the nodes were not made: its run ended with 69\n"));
}

TEST(CheckTable, ANodeWhoseProbeSaysNothingIsNotGood) {
  CheckContext some = context();
  some.trouble = "its run took too long";
  CheckedNode node = fine("n1");
  node.probe.reset();
  CheckTable table = check_table({node, fine("n2")}, some);
  EXPECT_FALSE(table.all_good());
  EXPECT_EQ(said(table, "ports"), "its probe has said nothing: its run took too long");
  EXPECT_EQ(table.rows[0].cells.size(), table.checks.size());
  EXPECT_FALSE(check_table({node}, context()).all_good());
  node.node.draining = true;  // it was not asked for one
  EXPECT_EQ(said(check_table({node}, context()), "ports"), "");
}

TEST(CheckTable, ShowsNothingThatSteersATerminal) {
  CheckedNode node = fine("\x1b[2J" + std::string(10'000, 'x'));
  node.node.build = "\x1b]0;t\x07";
  node.probe->unreachable = std::vector<std::string>(1000, "\x1b[31mn\r");
  const std::string text = checks_text(check_table({node}, context()));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_LT(text.size(), 5000u);
}

TEST(CheckTable, AsJsonHasEachCheck) {
  CheckedNode node = fine("n1");
  node.probe->unreachable = {"n2"};
  const std::string json = checks_json(check_table({node}, context()));
  EXPECT_THAT(
      json, HasSubstr(R"({"good":false,"nodes":[{"node":"n1","checks":{"answers":{"good":true,)"));
  EXPECT_THAT(
      json, HasSubstr(R"("ports":{"good":false,"shown":"some","what":"it cannot connect to n2",)"));
}

}  // namespace
}  // namespace train
