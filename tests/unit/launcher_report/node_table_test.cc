#include "launcher/report/node_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::HasSubstr;
using testing::Not;

NodeRow answered() {
  NodeRow row;
  row.address = "10.0.0.1:7070";
  row.answered = true;
  row.name = "n1";
  row.build = "1.0.0";
  row.addresses = {"10.0.0.1", "127.0.0.1"};
  row.total = {.cpu = 8, .gpu = 2, .memory_bytes = 64ull << 30, .custom = {{"tape", 1}}};
  row.free = {.cpu = 4, .gpu = 2, .memory_bytes = 48ull << 30, .custom = {{"tape", 1}}};
  row.sample.emplace();
  row.sample->load_hundredths = 150;
  row.sample->spool_free_bytes = 10ll << 30;
  return row;
}

NodeRow silent() {
  NodeRow row;
  row.address = "n2:7070";
  row.problem = Error{Errc::Unavailable, "n2:7070: connecting: Connection refused", "start it"};
  return row;
}

TEST(NodeTable, HasALineForEachNodeAndSaysWhatIsWrong) {
  EXPECT_EQ(nodes_text({answered(), silent()}, "1.0.0"),
            "node                state   free cores  free GPUs           free memory  load  "
            "free disk  version\n"
            "n1 (10.0.0.1:7070)  in use      4 of 8     2 of 2  48.0 GiB of 64.0 GiB  1.50   "
            "10.0 GiB  1.0.0\n"
            "n2:7070             no answer\n"
            "n2:7070: connecting: Connection refused; start it\n");
}

TEST(NodeTable, NamesDrainingOtherVersionsAndGpusInTrouble) {
  NodeRow row = answered();
  row.draining = true;
  row.draining_because = "SIGTERM";
  row.gpus = {{.gpu = "0", .state = "lost"}, {.gpu = "1", .last_xid = 79, .foreign = "pid 7 (x)"}};
  const std::string text = nodes_text({row}, "0.2.0");
  EXPECT_THAT(text, HasSubstr("\nn1: draining: SIGTERM\n"));
  EXPECT_THAT(text, HasSubstr("\nn1: version 1.0.0, not 0.2.0\n"));
  EXPECT_THAT(text, HasSubstr("\nn1: GPU 0: lost\n"));
  EXPECT_THAT(text, HasSubstr("\nn1: GPU 1: Xid 79, 0 in all\n"));
  EXPECT_THAT(text, HasSubstr("\nn1: GPU 1: in use by pid 7 (x)\n"));
}

TEST(NodeTable, NamesTheRunsThatHaveSomething) {
  NodeRow row = answered();
  row.runs = {{.run_id = "1", .run_name = "llama", .owner = "ada", .claimed = {.cpu = 4}},
              {.run_id = "2", .run_name = "bert", .claimed = {.gpu = 1}},
              {.run_id = "3", .run_name = "waits"}};
  EXPECT_THAT(nodes_text({row}, "1.0.0"), HasSubstr("\nn1: in use by llama (ada), bert\n"));
  EXPECT_THAT(nodes_json({row}),
              HasSubstr(R"("runs":[{"run":"llama","owner":"ada","claimed":{"CPU":4.0,)"));
}

TEST(NodeTable, ShowsLabels) {
  NodeRow row = answered();
  row.labels = {{"gpu", "H100"}, {"rack", "r1"}};
  EXPECT_THAT(nodes_text({row}, "1.0.0"), HasSubstr("\nn1: labels: gpu=H100, rack=r1\n"));
}

TEST(NodeTable, ShowsNothingThatSteersATerminal) {
  NodeRow row = answered();
  row.name = "\x1b[2Jn1\n\x07" + std::string(100'000, 'x');
  row.build = "\x1b]0;title\x07";
  row.draining = true;
  row.draining_because = "a\rb\x1b[31m";
  const std::string text = nodes_text({row}, "1.0.0");
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_LT(text.size(), 5000u);
}

TEST(NodeTable, AsJsonHasEverythingThatIsKnown) {
  NodeRow row = answered();
  row.gpus = {{.gpu = "0", .name = "H100", .memory_bytes = 80}};
  row.labels = {{"gpu", "H100"}, {"rack", "r1"}};
  EXPECT_EQ(nodes_json({row, silent()}),
            R"({"nodes":[{"address":"10.0.0.1:7070","answered":true,"name":"n1","version":"1.0.0",)"
            R"("addresses":["10.0.0.1","127.0.0.1"],)"
            R"("total":{"CPU":8.0,"GPU":2.0,"memory":68719476736,"tape":1.0},)"
            R"("free":{"CPU":4.0,"GPU":2.0,"memory":51539607552,"tape":1.0},)"
            R"("labels":{"gpu":"H100","rack":"r1"},"draining":false,)"
            R"("load":1.5,"spool_free_bytes":10737418240,)"
            R"("gpus":[{"gpu":"0","name":"H100","state":"ok","memory_bytes":80}],"runs":[]},)"
            R"({"address":"n2:7070","answered":false,)"
            R"("problem":"n2:7070: connecting: Connection refused","hint":"start it"}]})");
}

}  // namespace
}  // namespace train
