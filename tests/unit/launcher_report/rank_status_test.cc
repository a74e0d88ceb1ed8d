#include "launcher/report/rank_status.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

TEST(RankStatus, ShowsWhatEachRankIsDoingAndUses) {
  SampleTable ranks{.rows = {"0", "1", "2"}};
  add(ranks, "node", {"node-a", "node-a", "b"});
  add(ranks, "phase", {"step", "own", ""});
  add(ranks, "doing", {"", "download: 3 of 9 GiB", ""});
  add(ranks, "state", {"R", "D", "T"});
  add(ranks, "waits_in", {"", "nfs_wait", ""});
  add(ranks, "quiet_s", {0.2, 75, kNone});
  add(ranks, "steps", {1204, 0, kNone});
  add(ranks, "step_s", {0.48, kNone, kNone});
  add(ranks, "cpu", {0.984, 0, 1});
  add(ranks, "rss", {1536 << 20, 100, 2048});
  add(ranks, "memory_limit", {4096.0 * (1 << 20), kNone, kNone});
  SampleTable gpus{.kind = SampleKind::Gpus, .rows = {"node-a/0", "node-a/3", "b/0"}};
  add(gpus, "ranks", {"0-1", "0", ""});
  add(gpus, "state", {"ok", "lost", "ok"});
  add(gpus, "use", {0.93, kNone, 1});
  add(gpus, "memory_used", {40.0 * (1 << 30), kNone, 1});

  EXPECT_EQ(
      rank_status_text({ranks, gpus}, 900),
      R"(rank  node    doing                                                         steps  step time  CPU   memory              GPU
0     node-a  step                                                          1204   480 ms     0.98  1.5 GiB of 4.0 GiB  0: 93 %, 40.0 GiB; 3: lost
1     node-a  own (download: 3 of 9 GiB) for 1 min 15 s, waits in nfs_wait  0      -          0.00  100 B               0: 93 %, 40.0 GiB
2     b       runs, stopped by a signal                                     -      -          1.00  2.0 KiB
)");
}

TEST(RankStatus, SaysHowOldTheValuesAre) {
  const SampleTable ranks = ranks_at(0, {"0"}, "steps", {1});

  EXPECT_EQ(rank_status_text({ranks}, 65'000),
            "ranks as they were 1 min 5 s ago:\n"
            "rank  node  doing  steps  step time  CPU  memory\n"
            "0           runs   1      -          -    -\n");
  EXPECT_EQ(rank_status_text({}, 0), "");
}

TEST(RankStatus, ShowsThoseOfManyRanksThatAreWorstOff) {
  std::vector<std::string> rows;
  std::vector<double> steps;
  for (int rank = 0; rank < 100; ++rank) {
    rows.push_back(std::to_string(rank));
    steps.push_back(rank == 90 ? 5 : 10);
  }
  const std::string text = rank_status_text({ranks_at(0, rows, "steps", steps)}, 0);

  EXPECT_NE(text.find("\n90"), text.npos);
  EXPECT_NE(text.find("\n62 "), text.npos);
  EXPECT_EQ(text.find("\n63 "), text.npos);
  EXPECT_TRUE(text.ends_with("and 36 ranks that are better off (--output json shows all)\n"));
}

TEST(RankStatus, ShowsNothingThatSteersATerminal) {
  SampleTable ranks = ranks_at(0, {"0"}, "steps", {std::numeric_limits<double>::infinity()});
  add(ranks, "node", {"\x1b[2Jn"});
  add(ranks, "phase", {"\x07p"});
  add(ranks, "rss", std::vector<double>{-1e300});

  const std::string text = rank_status_text({ranks}, 0);

  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_EQ(text.find('\x07'), text.npos);
}

}  // namespace
}  // namespace train
