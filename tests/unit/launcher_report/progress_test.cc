#include "launcher/report/progress.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

namespace train {
namespace {

constexpr std::int64_t kWall = 1'795'254'000'000'000;

Moment at(Duration since_start) {
  using std::chrono::microseconds;
  return {TimePoint(seconds(1000)) + since_start,
          std::chrono::system_clock::time_point(
              microseconds(kWall) + std::chrono::duration_cast<microseconds>(since_start))};
}

std::vector<ReportRecord> report(std::uint64_t report_seq, Metrics metrics, std::int32_t rank = 0) {
  return {{.rank = rank,
           .attempt = 0,
           .report_seq = report_seq,
           .wall_us = kWall,
           .has_checkpoint = false,
           .metrics = std::move(metrics)}};
}

Metrics epoch(std::int64_t number, double loss) { return {{"loss", loss}, {"epoch", number}}; }

Progress progress(OutputMode mode, int columns = 80) {
  return Progress(
      {.mode = mode, .columns = columns, .run = "vit", .path = "/runs/vit", .metrics = {"val_acc"}},
      at(seconds(0)));
}

const std::string kClear = "\r\x1b[K";

TEST(LiveProgress, DrawsOneLineAtMostTenTimesASecond) {
  Progress live = progress(OutputMode::Live);
  EXPECT_EQ(live.started(2, 1, at(seconds(0))),
            "vit: 2 workers on 1 node, results in /runs/vit\nstarting | 0 s");
  EXPECT_EQ(live.reports(report(1, epoch(0, 0.123456)), at(milliseconds(50))), "");
  EXPECT_EQ(live.next_deadline(), at(milliseconds(100)).now);

  EXPECT_EQ(live.tick(at(milliseconds(100))), kClear + "epoch 0 | loss 0.1235 | 0 s");
  EXPECT_EQ(live.next_deadline(), at(milliseconds(1100)).now);
  EXPECT_EQ(live.tick(at(milliseconds(500))), "");
  EXPECT_EQ(live.tick(at(milliseconds(1100))), kClear + "epoch 0 | loss 0.1235 | 1 s");
  EXPECT_EQ(live.finish(at(seconds(2))), kClear);
  EXPECT_EQ(live.finish(at(seconds(2))), "");
}

TEST(LiveProgress, ShowsRateRestartsAndCheckpoint) {
  Progress live = progress(OutputMode::Live, /*columns=*/120);
  live.reports(report(1, {{"step", std::int64_t{100}}, {"loss", 0.5}, {"val_acc", 0.75}}),
               at(seconds(0)));
  live.checkpoint({.name = "checkpoint_000003", .path = "/c", .score = {}}, at(seconds(1)));
  live.restarting({.attempt = 0, .cause = "x", .resumes_from = "checkpoint_000003"},
                  at(seconds(2)));

  EXPECT_EQ(
      live.reports(report(2, {{"step", std::int64_t{350}}, {"loss", 0.25}, {"val_acc", 0.8}}),
                   at(seconds(5))),
      kClear +
          "step 350 | val_acc 0.8 | loss 0.25 | 50 steps/s | 1 restart | checkpoint_000003 | 5 s");
}

TEST(LiveProgress, SaysHowLongAReportTakesAndWhatIsLeft) {
  Progress live({.mode = OutputMode::Live, .columns = 120, .goals = {{"epoch", 9}}},
                at(seconds(0)));
  live.reports(report(1, epoch(0, 0.5)), at(seconds(0)));
  EXPECT_EQ(live.reports(report(2, epoch(1, 0.25)), at(seconds(16))),
            kClear + "epoch 1 | loss 0.25 | 16 s per report | about 2 min 0 s left | 16 s");
  EXPECT_EQ(
      live.reports(report(3, epoch(2, 0.25)), at(seconds(256))),
      kClear + "epoch 2 | loss 0.25 | 4 min 0 s per report | about 14 min 50 s left | 4 min 16 s");
}

TEST(LiveProgress, OfSlowStepsItSaysHowLongOneTakes) {
  Progress live = progress(OutputMode::Live, /*columns=*/120);
  live.reports(report(1, {{"step", std::int64_t{1}}}), at(seconds(0)));
  EXPECT_EQ(live.reports(report(2, {{"step", std::int64_t{2}}}), at(seconds(4))),
            kClear + "step 2 | 4 s per step | 4 s");
}

TEST(LiveProgress, ARateThatIsNoneIsNotShown) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (const double step : {1e-300, -1.0, kInfinity, kNaN}) {
    Progress live = progress(OutputMode::Live);
    live.reports(report(1, {{"step", 0.0}}), at(seconds(0)));
    EXPECT_EQ(live.reports(report(2, {{"step", step}}), at(seconds(4))),
              kClear + fmt::format("step {:.4g} | 4 s", step));
  }
}

TEST(LiveProgress, FitsTheTerminalAndFiltersNames) {
  Progress live = progress(OutputMode::Live, /*columns=*/30);
  EXPECT_EQ(
      live.reports(
          report(1, {{"epoch", std::int64_t{1}}, {"loss\x1b[2J\x07", 0.5}, {"accuracy", 0.5}}),
          at(seconds(0))),
      "epoch 1 | loss^G 0.5 | 0 s");
  live.resize(20);
  EXPECT_EQ(live.tick(at(seconds(1))), kClear + "epoch 1 | 1 s");
}

TEST(LiveProgress, PrintsWorkersOutputAboveTheLine) {
  Progress live = progress(OutputMode::Live);
  live.reports(report(1, epoch(0, 0.5)), at(seconds(0)));

  EXPECT_EQ(live.worker_output("[a 0] hello\n", at(seconds(1))),
            kClear + "[a 0] hello\nepoch 0 | loss 0.5 | 1 s");
  EXPECT_EQ(live.worker_output("[a 0] again\n", at(milliseconds(1010))), kClear + "[a 0] again\n");
  EXPECT_EQ(live.worker_output("[a 0] more\n", at(milliseconds(1020))), "[a 0] more\n");
  EXPECT_EQ(live.tick(at(milliseconds(1100))), "epoch 0 | loss 0.5 | 1 s");
}

TEST(LiveProgress, SaysWhatItWaitsFor) {
  Progress live = progress(OutputMode::Live, 100);
  const std::vector<WaitingNode> missing = {{"b:7070", "connection refused", {}},
                                            {"c:7070", "no answer", seconds(4)}};

  EXPECT_EQ(
      live.waiting(3, missing, at(seconds(4))),
      "waiting for 2 of 3 nodes: b:7070 (connection refused), c:7070 (no answer for 4 s) | 4 s");
}

TEST(PlainProgress, PrintsALineAnEpochAndNeverTwoWithinASecond) {
  Progress plain = progress(OutputMode::Plain);
  EXPECT_EQ(plain.reports(report(1, epoch(0, 0.5)), at(seconds(1))), "epoch 0 | loss 0.5 | 1 s\n");
  EXPECT_EQ(plain.reports(report(2, epoch(1, 0.4)), at(milliseconds(1300))), "");
  EXPECT_EQ(plain.next_deadline(), at(seconds(2)).now);
  EXPECT_EQ(plain.reports(report(3, epoch(2, 0.3)), at(milliseconds(1600))), "");

  EXPECT_EQ(plain.tick(at(seconds(2))), "epoch 2 | loss 0.3 | 300 ms per report | 2 s\n");
  EXPECT_EQ(plain.tick(at(seconds(3))), "");
  EXPECT_EQ(plain.next_deadline(), std::nullopt);
}

TEST(PlainProgress, NeverFloods) {
  Progress plain = progress(OutputMode::Plain);
  int lines = 0;
  for (int i = 0; i < 10 * 24 * 3600; ++i) {  // ten reports per second for a day, without epochs
    const std::string out =
        plain.reports(report(std::uint64_t(i) + 1, {{"loss", 0.5}}), at(milliseconds(100) * i));
    lines += out.empty() ? 0 : 1;
  }
  EXPECT_EQ(lines, 10 + 90 + 1424);
}

// Until then, nothing wakes up for it.
TEST(PlainProgress, AHeldBackReportIsDueWhenItIsShown) {
  Progress plain = progress(OutputMode::Plain);
  for (int i = 0; i < 10; ++i)
    ASSERT_NE(plain.reports(report(1, {{"loss", 0.5}}), at(seconds(i))), "");

  EXPECT_EQ(plain.reports(report(2, {{"loss", 0.25}}), at(seconds(12))), "");

  EXPECT_EQ(plain.next_deadline(), at(seconds(19)).now);
  EXPECT_EQ(plain.tick(at(milliseconds(18'999))), "");
  EXPECT_EQ(plain.tick(at(seconds(19))), "loss 0.25 | 1.25 s per report | 19 s\n");
  EXPECT_EQ(plain.next_deadline(), std::nullopt);
}

TEST(PlainProgress, ShowsTheLastReportAtTheEndAndOtherRanksNever) {
  Progress plain = progress(OutputMode::Plain);
  plain.reports(report(1, epoch(0, 0.5)), at(seconds(1)));
  plain.reports(report(2, epoch(1, 0.25)), at(milliseconds(1100)));
  EXPECT_EQ(plain.reports(report(9, epoch(9, 9), /*rank=*/1), at(seconds(5))), "");

  EXPECT_EQ(plain.finish(at(milliseconds(1200))),
            "epoch 1 | loss 0.25 | 100 ms per report | 1 s\n");
}

TEST(PlainProgress, SaysWhatAValidationFound) {
  Progress plain = progress(OutputMode::Plain);
  ValidationNews news{.name = "checkpoint_000012",
                      .status = "validated",
                      .metrics = {{"val_acc", 0.93}, {"rows", std::int64_t{10000}}},
                      .took = seconds(12)};
  EXPECT_EQ(plain.validated(news, at(seconds(20))),
            "checkpoint_000012 validated: val_acc=0.93 rows=10000 (took 12.0 s)\n");
  news.status = "timeout";  // a warning tells of it
  EXPECT_EQ(plain.validated(news, at(seconds(20))), "");
}

TEST(PlainProgress, SaysWhyItRestartsAndWaits) {
  Progress plain = progress(OutputMode::Plain);
  EXPECT_EQ(plain.attempt_started({.attempt = 0, .world_size = 2, .nnodes = 1}, at(seconds(0))),
            "");
  EXPECT_EQ(plain.restarting({.attempt = 0,
                              .cause = "rank 1 on a exited with code 7",
                              .resumes_from = "checkpoint_000002",
                              .failures = "1 of 3 failures used",
                              .wait = seconds(1)},
                             at(seconds(1))),
            "attempt 0 failed: rank 1 on a exited with code 7\n"
            "restarting in 1.0 s from checkpoint_000002 (1 of 3 failures used)\n");
  const std::vector<WaitingNode> refused = {{"b:7070", "connection refused", seconds(1)}};
  EXPECT_EQ(plain.waiting(2, refused, at(seconds(2))),
            "waiting for 1 of 2 nodes: b:7070 (connection refused for 1 s)\n");
  EXPECT_EQ(plain.waiting(2, refused, at(seconds(3))), "");
  EXPECT_EQ(plain.waiting(2, refused, at(seconds(12))),
            "waiting for 1 of 2 nodes: b:7070 (connection refused for 1 s)\n");
  EXPECT_EQ(plain.attempt_started(
                {.attempt = 1, .world_size = 2, .nnodes = 2, .resumes_from = "checkpoint_000002"},
                at(seconds(13))),
            "attempt 1: 2 workers on 2 nodes, from checkpoint_000002\n");
  EXPECT_EQ(plain.warning("storage is\x1b[2J full", at(seconds(14))), "warning: storage is full\n");
  EXPECT_EQ(plain.warning("a file\nand another", at(seconds(14))),
            "warning: a file\n  and another\n");
}

TEST(JsonProgress, IsAnObjectALine) {
  Progress json = progress(OutputMode::Json);
  EXPECT_EQ(
      json.started(2, 1, at(seconds(0))),
      R"({"event":"started","time":"2026-11-21T09:40:00.000000Z","run":"vit","path":"/runs/vit","world_size":2,"nnodes":1})"
      "\n");
  EXPECT_EQ(
      json.attempt_started({.attempt = 0, .world_size = 2, .nnodes = 1}, at(seconds(0))),
      R"({"event":"attempt","time":"2026-11-21T09:40:00.000000Z","attempt":0,"world_size":2,"nnodes":1,"resumes_from":null})"
      "\n");
  EXPECT_EQ(
      json.reports(report(1, epoch(0, 0.5)), at(seconds(1))),
      R"({"event":"report","time":"2026-11-21T09:40:01.000000Z","attempt":0,"report_seq":1,"metrics":{"loss":0.5,"epoch":0}})"
      "\n");
  EXPECT_EQ(json.reports(report(2, epoch(1, 0.25)), at(milliseconds(1050))), "");
  EXPECT_EQ(json.worker_output("[a 0] hello\n", at(milliseconds(1050))), "");
  EXPECT_EQ(
      json.checkpoint({.name = "checkpoint_000001",
                       .path = "/c/checkpoint_000001",
                       .score = 0.5,
                       .attempt = 1,
                       .report_seq = 2},
                      at(milliseconds(1060))),
      R"({"event":"report","time":"2026-11-21T09:40:01.060000Z","attempt":0,"report_seq":2,"metrics":{"loss":0.25,"epoch":1}})"
      "\n"
      R"({"event":"checkpoint","time":"2026-11-21T09:40:01.060000Z","name":"checkpoint_000001",)"
      R"("path":"/c/checkpoint_000001","attempt":1,"report_seq":2,"score":0.5})"
      "\n");
  EXPECT_EQ(
      json.restarting({.attempt = 0, .cause = "lost", .wait = seconds(1)}, at(seconds(2))),
      R"({"event":"restart","time":"2026-11-21T09:40:02.000000Z","attempt":0,"cause":"lost","resumes_from":null,"wait_s":1.0})"
      "\n");
}

}  // namespace
}  // namespace train
