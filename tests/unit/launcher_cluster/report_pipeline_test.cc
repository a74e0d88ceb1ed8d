#include "launcher/cluster/reports/report_pipeline.h"

#include <signal.h>
#include <sys/resource.h>

#include <condition_variable>
#include <future>
#include <mutex>

#include "lib/wire/reports.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

constexpr Attempt kAttempt{0};
constexpr auto kDeadline = std::chrono::seconds(20);

/// Make the reports first … first + values.size() - 1 of a rank, each {"loss": value}.
ReportBatch batch(int rank, std::uint64_t first, const std::vector<double>& values,
                  bool checkpoint = false) {
  ReportBatch made;
  made.rank = rank;
  made.first_report_seq = first;
  for (double value : values) {
    append_report(1000, checkpoint, {{"loss", value}}, made.data);
    ++made.count;
  }
  return made;
}

/// Merges the news so far, which the pipeline posts from its thread.
class NewsBox {
 public:
  std::function<void(ReportPipeline::News)> poster() {
    return [this](ReportPipeline::News news) {
      const std::lock_guard lock(mutex_);
      for (auto& record : news.shown) shown.push_back(std::move(record));
      for (auto& ack : news.acks) acks.push_back(ack);
      for (auto& warning : news.warnings) warnings.push_back(std::move(warning));
      if (news.stop && stop.empty()) stop = *news.stop;
      flushed = std::max(flushed, news.flushed);
      changed_.notify_all();
    };
  }
  bool wait_flushed(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, [&] { return flushed >= number; });
  }
  bool wait_acknowledged() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kDeadline, [&] { return !acks.empty(); });
  }
  std::vector<ReportRecord> shown;
  std::vector<std::pair<Attempt, ReportAck>> acks;
  std::vector<std::string> warnings;
  std::string stop;
  std::uint64_t flushed = 0;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// A sink that fails as it is told.
struct SinkState {
  std::string fails;  // the error's message; "": it takes reports
  std::vector<std::string> warnings;
  bool keeps_histograms = false;
};
class FakeSink final : public ReportSink {
 public:
  explicit FakeSink(SinkState& state) : state_(state) {}
  Result<Unit> on_reports(std::span<const ReportRecord>) override {
    if (state_.fails.empty()) return Unit{};
    return Error{Errc::Io, state_.fails, ""};
  }
  Result<Unit> flush() override { return Unit{}; }
  Result<Unit> sync() override { return Unit{}; }
  std::vector<std::string> warnings() const override { return state_.warnings; }
  bool keeps_histograms() const override { return state_.keeps_histograms; }

 private:
  SinkState& state_;
};

template <class... States>
std::vector<std::unique_ptr<ReportSink>> sinks_of(States&... states) {
  std::vector<std::unique_ptr<ReportSink>> sinks;
  (sinks.push_back(std::make_unique<FakeSink>(states)), ...);
  return sinks;
}

std::unique_ptr<ReportPipeline> make_pipeline(const std::string& folder, NewsBox& box,
                                              std::vector<StopRule> rules = {}) {
  return std::make_unique<ReportPipeline>(*MetricsLog::open(folder + "/metrics.jsonl"),
                                          std::vector<std::unique_ptr<ReportSink>>{},
                                          StopRules(std::move(rules)), box.poster());
}

std::vector<std::pair<std::int32_t, std::uint64_t>> written(const std::string& folder) {
  std::vector<std::pair<std::int32_t, std::uint64_t>> all;
  EXPECT_TRUE(read_metrics_log(folder + "/metrics.jsonl", [&](ReportRecord&& record) {
    all.emplace_back(record.rank, record.report_seq);
    return true;
  }));
  return all;
}

TEST(ReportPipeline, AcknowledgesWhatIsOnDisk) {
  TempFolder temp;
  NewsBox box;
  auto pipeline = make_pipeline(temp.path(), box);

  pipeline->add(kAttempt, batch(0, 1, {0.5, 0.4}));
  pipeline->add(kAttempt, batch(1, 1, {0.6}));
  ASSERT_TRUE(box.wait_flushed(pipeline->flush()));

  EXPECT_EQ(written(temp.path()),
            (std::vector<std::pair<std::int32_t, std::uint64_t>>{{0, 1}, {0, 2}, {1, 1}}));
  std::map<std::int32_t, std::uint64_t> acked;
  for (const auto& [attempt, ack] : box.acks) acked[ack.rank] = ack.report_seq;
  EXPECT_EQ(acked, (std::map<std::int32_t, std::uint64_t>{{0, 2}, {1, 1}}));
}

TEST(ReportPipeline, WritesAReportThatComesAgainOnce) {
  TempFolder temp;
  NewsBox box;
  auto pipeline = make_pipeline(temp.path(), box);

  pipeline->add(kAttempt, batch(0, 1, {0.5, 0.4}));
  pipeline->add(kAttempt, batch(0, 2, {0.4, 0.3}));
  ASSERT_TRUE(box.wait_flushed(pipeline->flush()));

  EXPECT_EQ(written(temp.path()),
            (std::vector<std::pair<std::int32_t, std::uint64_t>>{{0, 1}, {0, 2}, {0, 3}}));
}

// A commit that finds no metrics of its report takes the newest, while the thread is at work.
TEST(ReportPipeline, TellsTheNewestMetricsAtAnyTime) {
  constexpr std::uint64_t kReports = 500;
  TempFolder temp;
  NewsBox box;
  auto pipeline = make_pipeline(temp.path(), box);
  EXPECT_EQ(pipeline->last_metrics(), Metrics{});

  double newest = 0;
  for (std::uint64_t n = 1; n <= kReports; ++n) {
    pipeline->add(kAttempt, batch(0, n, {static_cast<double>(n)}));
    const Metrics metrics = pipeline->last_metrics();
    const double loss = metrics.empty() ? 0 : std::get<double>(metrics.front().second);
    EXPECT_GE(loss, newest);
    newest = loss;
  }
  ASSERT_TRUE(box.wait_flushed(pipeline->flush()));

  EXPECT_EQ(pipeline->last_metrics(), (Metrics{{"loss", static_cast<double>(kReports)}}));
}

TEST(ReportPipeline, GoesOnWithWhatTheFileHoldsAfterARestartOfTheLauncher) {
  TempFolder temp;
  NewsBox before, after;
  auto first = make_pipeline(temp.path(), before);
  first->add(kAttempt, batch(0, 1, {0.5, 0.4}));
  first->finish();

  auto second = make_pipeline(temp.path(), after);
  second->add(kAttempt, batch(0, 1, {0.5, 0.4, 0.3}));
  ASSERT_TRUE(after.wait_flushed(second->flush()));

  EXPECT_EQ(written(temp.path()),
            (std::vector<std::pair<std::int32_t, std::uint64_t>>{{0, 1}, {0, 2}, {0, 3}}));
  ASSERT_FALSE(after.acks.empty());
  EXPECT_EQ(after.acks.back().second.report_seq, 3u);
}

TEST(ReportPipeline, NamesAGapAndAcknowledgesNothingBeyondIt) {
  TempFolder temp;
  NewsBox box;
  auto pipeline = make_pipeline(temp.path(), box);

  pipeline->add(kAttempt, batch(0, 3, {0.3}));
  ASSERT_TRUE(box.wait_flushed(pipeline->flush()));

  EXPECT_EQ(box.warnings, std::vector<std::string>{"reports 1 to 2 of rank 0 are missing"});
  EXPECT_TRUE(box.acks.empty());
  EXPECT_TRUE(written(temp.path()).empty());
}

TEST(ReportPipeline, TellsWhatIsLostWithTheMachineOfAnEarlierLauncher) {
  TempFolder temp;
  NewsBox before, box;
  make_pipeline(temp.path(), before)->add(kAttempt, batch(0, 1, {0.5, 0.4}));
  ReportPipeline pipeline(*MetricsLog::open(temp.path() + "/metrics.jsonl"), {}, StopRules({}),
                          box.poster(), {}, kAttempt);

  pipeline.add(kAttempt, batch(0, 5, {0.3}));  // 3 and 4 were acknowledged elsewhere
  ASSERT_TRUE(box.wait_flushed(pipeline.flush()));

  EXPECT_EQ(box.warnings,
            std::vector<std::string>{"2 reports of rank 0 are lost with the machine of an earlier "
                                     "launcher"});
  EXPECT_EQ(box.acks.back().second.report_seq, 5u);
  EXPECT_EQ(written(temp.path()),
            (std::vector<std::pair<std::int32_t, std::uint64_t>>{{0, 1}, {0, 2}, {0, 5}}));
}

// While the disk is slow, links may break any number of times.
TEST(ReportPipeline, KeepsOnceWhatComesAgainWhileItWaits) {
  TempFolder temp;
  std::promise<void> stall;
  NewsBox box;
  ReportPipeline pipeline(*MetricsLog::open(temp.path() + "/metrics.jsonl"), {}, StopRules({}),
                          [&, post = box.poster(), go_on = stall.get_future().share()](auto news) {
                            go_on.wait();
                            post(std::move(news));
                          });
  const ReportBatch first = batch(0, 1, {0.5, 0.4}), second = batch(0, 3, {0.3});
  pipeline.add(kAttempt, first);

  for (int i = 0; i < 1000; ++i) {
    pipeline.add(kAttempt, first);
    pipeline.add(kAttempt, second);
  }

  EXPECT_LE(pipeline.queued_bytes(), first.data.size() + second.data.size());
  stall.set_value();
  ASSERT_TRUE(box.wait_flushed(pipeline.flush()));
  pipeline.finish();
  EXPECT_EQ(box.acks.back().second.report_seq, 3u);
  EXPECT_EQ(written(temp.path()),
            (std::vector<std::pair<std::int32_t, std::uint64_t>>{{0, 1}, {0, 2}, {0, 3}}));
}

TEST(ReportPipeline, AcknowledgesAgainWhatComesAgainAfterItWasWritten) {
  TempFolder temp;
  NewsBox box;
  auto pipeline = make_pipeline(temp.path(), box);
  pipeline->add(kAttempt, batch(0, 1, {0.5, 0.4}));
  ASSERT_TRUE(box.wait_flushed(pipeline->flush()));
  box.acks.clear();

  pipeline->add(kAttempt, batch(0, 1, {0.5}));
  pipeline->finish();

  ASSERT_EQ(box.acks.size(), 1u);
  EXPECT_EQ(box.acks[0].second.report_seq, 2u);
}

TEST(ReportPipeline, AcknowledgesByItselfOnceTheDiskTakesReportsAgain) {
  TempFolder temp;
  NewsBox box;
  auto pipeline = make_pipeline(temp.path(), box);
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit none{0, limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &none);
  pipeline->add(kAttempt, batch(0, 1, {0.5}));
  EXPECT_TRUE(box.wait_flushed(pipeline->flush()));
  EXPECT_TRUE(box.acks.empty());

  ::setrlimit(RLIMIT_FSIZE, &limit);

  EXPECT_TRUE(box.wait_acknowledged());
  ::signal(SIGXFSZ, before);
  EXPECT_EQ(written(temp.path()), (std::vector<std::pair<std::int32_t, std::uint64_t>>{{0, 1}}));
}

TEST(ReportPipeline, TellsOnceOfEachSinkThatItFailsUntilItTakesReportsAgain) {
  TempFolder temp;
  NewsBox box;
  SinkState table{.fails = "writing progress.csv", .warnings = {}};
  SinkState events{.fails = "", .warnings = {}};
  ReportPipeline pipeline(*MetricsLog::open(temp.path() + "/metrics.jsonl"),
                          sinks_of(table, events), StopRules({}), box.poster());
  std::uint64_t next = 1;
  const auto report = [&] {
    pipeline.add(kAttempt, batch(0, next++, {0.5}));
    ASSERT_TRUE(box.wait_flushed(pipeline.flush()));
  };

  for (int i = 0; i < 3; ++i) {
    report();
    ASSERT_TRUE(box.wait_flushed(pipeline.flush()));  // without a report
  }
  events.fails = "writing tb";
  report();
  table.fails = "";
  report();
  table.fails = "writing progress.csv again";
  report();

  EXPECT_EQ(box.warnings, (std::vector<std::string>{
                              "reports are only in metrics.jsonl: writing progress.csv",
                              "reports are only in metrics.jsonl: writing tb",
                              "reports are only in metrics.jsonl: writing progress.csv again"}));
}

TEST(ReportPipeline, TellsOnceThatNothingKeepsHistograms) {
  TempFolder temp;
  ReportBatch with_histogram = batch(0, 1, {0.5});
  std::string packed;
  append_histogram("fc1", {.min = 0, .max = 1, .counts = {1}}, packed);
  add_histograms(1, packed, with_histogram.data);
  ReportBatch again = with_histogram;
  again.first_report_seq = 2;

  for (const bool kept : {false, true}) {
    SCOPED_TRACE(kept);
    NewsBox box;
    SinkState state{.fails = "", .warnings = {}, .keeps_histograms = kept};
    ReportPipeline pipeline(
        *MetricsLog::open(temp.path() + (kept ? "/kept.jsonl" : "/metrics.jsonl")), sinks_of(state),
        StopRules({}), box.poster());
    pipeline.add(kAttempt, with_histogram);
    pipeline.add(kAttempt, again);
    ASSERT_TRUE(box.wait_flushed(pipeline.flush()));
    EXPECT_EQ(box.warnings,
              kept ? std::vector<std::string>{}
                   : std::vector<std::string>{"the histogram 'fc1' and others of rank 0 are not "
                                              "kept: run_config.callbacks does not have "
                                              "tensorboard"});
  }
}

TEST(ReportPipeline, TellsAtTheEndWhatStopRulesAndSinksLack) {
  TempFolder temp;
  NewsBox box;
  SinkState table{.fails = "", .warnings = {"the table lacks a metric"}};
  ReportPipeline pipeline(*MetricsLog::open(temp.path() + "/metrics.jsonl"), sinks_of(table),
                          StopRules({{"acc", 0.9}}), box.poster());

  pipeline.finish();

  EXPECT_EQ(pipeline.end_warnings(),
            (std::vector<std::string>{"stop names the metric \"acc\", which rank 0 never reported",
                                      "the table lacks a metric"}));
}

TEST(ReportPipeline, WhatRankZeroReportedUnderAnEarlierLauncherIsNotMissing) {
  TempFolder temp;
  NewsBox before;
  make_pipeline(temp.path(), before)->add(kAttempt, batch(0, 1, {0.5}));
  StopRules stop({{"loss", 0.9}});

  const auto earlier = earlier_reports(temp.path() + "/metrics.jsonl", {}, stop);

  ASSERT_TRUE(earlier);
  EXPECT_EQ(earlier->newest, (Metrics{{"loss", 0.5}}));
  EXPECT_EQ(stop.warnings(), std::vector<std::string>{});
}

TEST(ReportPipeline, TellsWhenAStopRuleIsMetByRankZero) {
  TempFolder temp;
  NewsBox box;
  auto pipeline = make_pipeline(temp.path(), box, {{"loss", 0.9}});

  pipeline->add(kAttempt, batch(1, 1, {0.95}));
  pipeline->add(kAttempt, batch(0, 1, {0.1, 0.92}));
  ASSERT_TRUE(box.wait_flushed(pipeline->flush()));

  EXPECT_EQ(box.stop, "loss is 0.92, and stop asks for 0.9");
}

}  // namespace
}  // namespace train
