#include "launcher/dashboard/prometheus_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/time.h"

namespace train {
namespace {

using testing::HasSubstr;
using testing::Not;

const auto kNow = parse_utc("2026-11-26T10:10:00.000000Z");

RunMetrics run(const std::string& id, bool live) {
  RunMetrics run;
  run.row.id = run.row.name = id;
  run.row.state = live ? "running" : "finished";
  run.row.live = live;
  run.row.began = "2026-11-26T10:00:00.000000Z";
  run.row.ended = live ? "" : "2026-11-26T10:01:00.000000Z";
  run.row.attempts = 2;
  run.failed_attempts = 1;
  return run;
}

SampleTable ranks(std::size_t count) {
  SampleTable table{.kind = SampleKind::Ranks};
  SampleColumn rss{.field = find_sample_field(SampleKind::Ranks, "rss")};
  for (std::size_t i = 0; i < count; ++i) {
    table.rows.push_back(std::to_string(i));
    rss.numbers.push_back(1000.0 + static_cast<double>(i));
  }
  table.columns.push_back(rss);
  return table;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PrometheusText, ALiveRunHasItsSeries) {
  RunMetrics live = run("a~1", true);
  live.row.metrics = {{"loss", 0.5}, {"name", std::string("x")}};
  live.samples = {ranks(2)};

  const std::string text = prometheus_text({live, run("b~1", false)}, "1.2.3", kNow);

  EXPECT_THAT(text, HasSubstr("trainrun_build_info{version=\"1.2.3\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("trainrun_runs{state=\"finished\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE trainrun_run_attempts_total counter\n"));
  EXPECT_THAT(text, HasSubstr("trainrun_run_attempts_total{run=\"a~1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("trainrun_run_failed_attempts_total{run=\"a~1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("trainrun_run_state{run=\"a~1\",state=\"running\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("trainrun_run_state{run=\"a~1\",state=\"errored\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("trainrun_metric_value{run=\"a~1\",key=\"loss\"} 0.5\n"));
  EXPECT_THAT(text, Not(HasSubstr("key=\"name\"")));
  EXPECT_THAT(text,
              HasSubstr("trainrun_worker_resident_memory_bytes{run=\"a~1\",rank=\"1\"} 1001\n"));
  EXPECT_THAT(text, Not(HasSubstr("b~1")));  // it ended more than five minutes ago
}

TEST(PrometheusText, ARunStaysForFiveMinutes) {
  RunMetrics ended = run("b~1", false);
  ended.row.ended = "2026-11-26T10:05:30.000000Z";
  EXPECT_THAT(prometheus_text({ended}, "", kNow), HasSubstr("b~1"));
}

TEST(PrometheusText, EachFamilyIsDescribedOnce) {
  const std::string text = prometheus_text({run("a~1", true), run("b~1", true)}, "", kNow);
  EXPECT_EQ(count_of(text, "# TYPE trainrun_run_info gauge\n"), 1U);
  EXPECT_EQ(count_of(text, "\ntrainrun_run_info{"), 2U);
}

TEST(PrometheusText, TheNumberOfSeriesIsBounded) {
  std::vector<RunMetrics> runs;
  for (int i = 0; i < 10; ++i) runs.push_back(run("r~" + std::to_string(i), true));
  for (int i = 0; i < 30; ++i) runs[0].row.metrics.emplace_back("m" + std::to_string(i), 1.0);
  runs[0].samples = {ranks(5)};
  runs[1].samples = {ranks(50)};

  const std::string text = prometheus_text(runs, "", kNow, {.runs = 3, .ranks = 40, .values = 20});

  EXPECT_EQ(count_of(text, "\ntrainrun_run_info{"), 3U);
  EXPECT_EQ(count_of(text, "\ntrainrun_metric_value{"), 20U);
  EXPECT_EQ(count_of(text, "\ntrainrun_worker_resident_memory_bytes{"), 5U);
}

SampleTable operators(const std::vector<std::string>& rows) {
  SampleTable table{.kind = SampleKind::Data, .rows = rows};
  SampleColumn waits{.field = find_sample_field(SampleKind::Data, "input_s")};
  for (std::size_t i = 0; i < rows.size(); ++i)
    waits.numbers.push_back(0.5 + static_cast<double>(i));
  table.columns.push_back(waits);
  return table;
}

TEST(PrometheusText, TellsWhatTheOperatorsOfDatasetsWaitFor) {
  RunMetrics live = run("a~1", true);
  live.samples = {operators({"train/loop/all", "train/map crop/3", "train/loop/3", "\"}evil 1"})};
  const std::string text = prometheus_text({live}, "", kNow);
  EXPECT_THAT(text, HasSubstr("# TYPE trainrun_data_wait_seconds_total counter\n"));
  EXPECT_THAT(text, HasSubstr("trainrun_data_wait_seconds_total{run=\"a~1\",rank=\"3\",dataset="
                              "\"train\",stage=\"map_crop\"} 1.5\n"));
  EXPECT_EQ(count_of(text, "\ntrainrun_data_wait_seconds_total{"), 2U);
  EXPECT_THAT(text, Not(HasSubstr("evil")));

  RunMetrics large = run("b~1", true);
  large.samples = {operators(std::vector<std::string>(20, "train/loop/0"))};
  EXPECT_EQ(count_of(prometheus_text({large, live}, "", kNow, {.operators = 10}),
                     "\ntrainrun_data_wait_seconds_total{"),
            2U);
}

TEST(PrometheusText, TextsOfUsersStayWithinTheirLabels) {
  RunMetrics live = run("a~1", true);
  live.row.metrics = {{"x\"} 1\nevil{a=\"", 0.5}, {std::string(5000, 'k'), 0.5}};

  const std::string text = prometheus_text({live}, "", kNow);

  EXPECT_THAT(text, Not(HasSubstr("\nevil")));
  EXPECT_THAT(text, HasSubstr("key=\"x\\\"} 1\\nevil{a=\\\"\""));
  EXPECT_THAT(text, Not(HasSubstr(std::string(200, 'k'))));
}

TEST(PrometheusText, TellsOfIngestWorkers) {
  RunMetrics live = run("a~1", true);
  live.ingest = {{"train", {.wanted = 3, .serving = 2, .deaths = 5}}};

  const std::string text = prometheus_text({live}, "", kNow);

  EXPECT_THAT(text, HasSubstr("trainrun_ingest_workers{run=\"a~1\",dataset=\"train\"} 3\n"));
  EXPECT_THAT(text,
              HasSubstr("trainrun_ingest_workers_serving{run=\"a~1\",dataset=\"train\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("trainrun_ingest_worker_deaths_total{run=\"a~1\",dataset=\"train\"} 5\n"));
}

}  // namespace
}  // namespace train
