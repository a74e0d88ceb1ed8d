#include "launcher/cluster/reports/report_pipeline.h"

#include <fmt/format.h>

#include "lib/base/thread.h"
#include "lib/wire/reports.h"

namespace train {
namespace {

// A sync costs milliseconds. While reports pour in, one sync every 20 ms is enough; workers have
// room for far more.
constexpr auto kSyncEvery = std::chrono::milliseconds(20);
constexpr auto kRetryEvery = std::chrono::seconds(1);  // while the disk takes nothing
constexpr std::size_t kShownMax = 64;                  // the screen shows a few a second at most

}  // namespace

Result<EarlierReports> earlier_reports(const std::string& metrics_log,
                                       const std::optional<LivingAttempt>& living, StopRules& stop,
                                       const std::function<void(const ReportRecord&)>& each) {
  EarlierReports earlier;
  TRY_VOID(read_metrics_log(metrics_log, [&](ReportRecord&& report) {
    if (report.rank != 0) return true;
    stop.on_earlier_report(report);
    each(report);
    const Attempt attempt{report.attempt};
    if (living && attempt == living->id && report.has_checkpoint)
      earlier.with_checkpoint[{attempt, report.report_seq}] = report.metrics;
    earlier.newest = std::move(report.metrics);
    return true;
  }));
  return earlier;
}

ReportPipeline::ReportPipeline(MetricsLog log, std::vector<std::unique_ptr<ReportSink>> sinks,
                               StopRules stop, std::function<void(News)> post, Metrics last_metrics,
                               std::optional<Attempt> adopted)
    : log_(std::move(log)),
      stop_(std::move(stop)),
      post_(std::move(post)),
      last_metrics_(std::move(last_metrics)) {
  for (const HeldReports& held : log_.held())
    sequences_[Attempt{held.attempt}].restore(Rank{held.rank}, held.last_report_seq);
  if (adopted) sequences_[*adopted].adopt();
  for (auto& sink : sinks) {
    keeps_histograms_ = keeps_histograms_ || sink->keeps_histograms();
    outputs_.push_back({.sink = std::move(sink)});
  }
  thread_ = start_thread("trainrun-report", [this] { run(); });
}

ReportPipeline::~ReportPipeline() { finish(); }

void ReportPipeline::add(Attempt attempt, ReportBatch batch) {
  const std::lock_guard lock(mutex_);
  const auto accepted =
      sequences_[attempt].accept(Rank{batch.rank}, batch.first_report_seq, batch.count);
  if (accepted && accepted->lost > 0)
    work_.warnings.insert(
        fmt::format("{} of rank {} {} lost with the machine of an earlier launcher",
                    accepted->lost == 1 ? "a report" : fmt::format("{} reports", accepted->lost),
                    batch.rank, accepted->lost == 1 ? "is" : "are"));
  if (!accepted)
    work_.warnings.insert(accepted.error().message);
  else if (accepted->known == batch.count)
    work_.acknowledge = true;
  else
    work_.items.push_back(
        {.attempt = attempt, .batch = std::move(batch), .known = accepted->known});
  wake_.notify_one();
}

std::size_t ReportPipeline::queued_bytes() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const Item& item : work_.items) bytes += item.batch.data.size();
  return bytes;
}

std::uint64_t ReportPipeline::flush() {
  const std::lock_guard lock(mutex_);
  work_.items.push_back({.flush = ++flush_count_});
  wake_.notify_one();
  return flush_count_;
}

Metrics ReportPipeline::last_metrics() const {
  const std::lock_guard lock(mutex_);
  return last_metrics_;
}

void ReportPipeline::finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<std::string> ReportPipeline::end_warnings() const {
  std::vector<std::string> warnings = stop_.warnings();
  for (const Output& output : outputs_)
    for (std::string& warning : output.sink->warnings()) warnings.push_back(std::move(warning));
  return warnings;
}

void ReportPipeline::run() {
  for (bool over = false; !over;) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      const auto woken = [this] { return !work_.empty() || finishing_; };
      if (unsynced_)
        wake_.wait_for(lock, kRetryEvery, woken);  // workers may be waiting for an acknowledgement
      else
        wake_.wait(lock, woken);
      std::swap(work, work_);
      over = finishing_ && work.empty();
    }
    if (work.empty() && !unsynced_) continue;
    News news;
    const auto began = std::chrono::steady_clock::now();
    for (Item& item : work.items) {
      if (item.flush != 0)
        news.flushed = item.flush;
      else
        take(item, news);
    }
    news.warnings.insert(news.warnings.end(), work.warnings.begin(), work.warnings.end());
    sync(news);
    const bool waited_for = news.flushed != 0;
    post_(std::move(news));
    if (!waited_for) {
      std::unique_lock lock(mutex_);
      wake_.wait_until(lock, began + kSyncEvery, [this] {
        return finishing_ || (!work_.items.empty() && work_.items.back().flush != 0);
      });
    }
  }
}

void ReportPipeline::take(Item& item, News& news) {
  auto records = read_reports(item.batch, item.attempt.value);
  if (!records) {  // acknowledge it nevertheless: it would arrive again unchanged
    news.warnings.push_back(records.error().message);
    return written(item);
  }
  const std::span<const ReportRecord> fresh(records->begin() + item.known, records->end());
  // Never acknowledge reports before they are written. While the disk accepts none, the workers'
  // own queues fill up.
  for (;;) {
    const auto written = log_.on_reports(fresh);
    if (written) break;
    log_failed(written.error(), news);
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kRetryEvery, [this] { return finishing_; })) return;
  }
  written(item);
  for (Output& output : outputs_) {
    output.asked = true;
    if (const auto taken = output.sink->on_reports(fresh); !taken && !output.failed)
      output.failed = taken.error();
  }
  if (item.batch.rank != 0) return;
  for (const ReportRecord& record : fresh) {
    if (auto reason = stop_.on_report(record); reason && !news.stop) news.stop = std::move(reason);
    if (record.has_checkpoint) news.with_checkpoint.push_back(record);
    if (!record.histograms.empty() && !keeps_histograms_ &&
        !std::exchange(histograms_refused_told_, true))
      news.warnings.push_back(
          fmt::format("the histogram '{}' and others of rank 0 are not kept: "
                      "run_config.callbacks does not have tensorboard",
                      record.histograms.front().first));
  }
  {
    const std::lock_guard lock(mutex_);
    last_metrics_ = fresh.back().metrics;
  }
  const std::size_t shown = std::min(fresh.size(), kShownMax);
  news.shown.insert(news.shown.end(), fresh.end() - static_cast<std::ptrdiff_t>(shown),
                    fresh.end());
}

void ReportPipeline::sync(News& news) {
  const auto synced = log_.sync();
  flush_outputs(news);
  unsynced_ = !synced;
  if (!synced) return log_failed(synced.error(), news);  // the supervisors keep the reports
  log_failure_told_ = false;
  if (const auto bytes = log_.size()) news.logged = *bytes;
  const std::lock_guard lock(mutex_);
  for (auto& [attempt, sequence] : sequences_) {
    for (const auto& [rank, report_seq] : sequence.synced())
      news.acks.push_back({attempt, ReportAck{rank.value, report_seq}});
  }
}

void ReportPipeline::log_failed(const Error& error, News& news) {
  if (!std::exchange(log_failure_told_, true))
    news.warnings.push_back(fmt::format("reports cannot be written: {}", error.describe()));
}

void ReportPipeline::flush_outputs(News& news) {
  for (Output& output : outputs_) {
    if (const auto flushed = output.sink->flush(); !flushed && !output.failed)
      output.failed = flushed.error();
    if (output.failed && !output.told)
      news.warnings.push_back(
          fmt::format("reports are only in metrics.jsonl: {}", output.failed->describe()));
    if (output.failed || output.asked) output.told = output.failed.has_value();
    output.asked = false;
    output.failed.reset();
  }
}

void ReportPipeline::written(const Item& item) {
  const std::lock_guard lock(mutex_);
  sequences_[item.attempt].written(Rank{item.batch.rank},
                                   item.batch.first_report_seq + item.batch.count - 1);
}

}  // namespace train
