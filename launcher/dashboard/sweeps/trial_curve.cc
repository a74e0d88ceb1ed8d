#include "launcher/dashboard/sweeps/trial_curve.h"

#include <cmath>

#include "launcher/cluster/sweep/trial_reports.h"
#include "launcher/dashboard/report_readers.h"
#include "lib/observe/metrics_log.h"
#include "lib/storage/journal_format.h"

namespace train {
namespace {

constexpr std::size_t kTrialJournalBytesMax =
    4u << 20;                           // of a trial, to count the reports before a restart
constexpr int kJournalReadsMax = 1024;  // a read for each restart
constexpr std::string_view kRankZero = R"({"rank":0,)";

}  // namespace

TrialCurve::TrialCurve(const SearchSpec& search)
    : metric_(search.metric), time_attribute_(search.time_attribute), mode_(search.mode) {}

void TrialCurve::add_part(std::string folder, double begun_at) {
  LineReader lines(folder + "/metrics.jsonl", kReportLineBytesMax);
  parts_.push_back({.folder = std::move(folder), .begun_at = begun_at, .lines = std::move(lines)});
}

bool TrialCurve::update(const FolderFiles& sweep, std::uint64_t& bytes_max) {
  for (Part& part : parts_) {
    const std::uint64_t from = part.lines.offset();
    const bool more = part.lines.update(
        sweep, bytes_max,
        [&](std::string_view line, std::uint64_t) {
          if (!line.starts_with(kRankZero)) return true;
          if (const auto report = parse_report_line(line)) add(sweep, part, *report);
          return true;
        },
        [&] { forget(); });
    const std::uint64_t read = part.lines.offset() > from ? part.lines.offset() - from : 0;
    bytes_max -= std::min(bytes_max, read);
    if (more) return true;
  }
  return false;
}

/// Forget what was read: one of the files has been replaced.
void TrialCurve::forget() {
  points_.clear();
  per_point_ = 1;
  reports_ = non_finite_ = 0;
  time_.reset(), value_.reset(), best_.reset(), best_time_.reset();
}

void TrialCurve::add(const FolderFiles& sweep, Part& part, const ReportRecord& report) {
  const auto value = number_of(report.metrics, metric_);
  if (!value) return;
  const auto time =
      time_attribute_.empty()
          ? std::optional(part.begun_at + static_cast<double>(before(sweep, part, report.attempt) +
                                                              report.report_seq))
          : number_of(report.metrics, time_attribute_);
  if (!time || !std::isfinite(*time)) return;
  ++reports_;
  time_ = time;
  value_ = value;
  if (!std::isfinite(*value)) {
    ++non_finite_;
    return;
  }
  if (!best_ || (mode_ == SearchMode::Min ? *value < *best_ : *value > *best_)) {
    best_ = value;
    best_time_ = time;
  }
  add_point(*time, *value);
}

std::uint64_t TrialCurve::before(const FolderFiles& sweep, Part& part, std::uint64_t attempt) {
  if (attempt == 0) return 0;
  const auto known = part.before.find(attempt);
  if (known != part.before.end()) return known->second;
  // Reports may name any number of attempts that the journal lacks.
  if (part.journal_reads >= kJournalReadsMax) return 0;
  ++part.journal_reads;
  std::vector<boost::json::object> records;
  if (const auto read = sweep.read(part.folder + "/events.jsonl", 0, kTrialJournalBytesMax))
    for (JournalRecord& record : replay_journal(read->text).records)
      records.push_back(std::move(record.event));
  for (const auto& [known_attempt, reports] : reports_before_attempts(records))
    part.before[known_attempt] = reports;
  return part.before[attempt];
}

void TrialCurve::add_point(double time, double value) {
  // After a restart, what is done again takes the place of what was lost; and with `pbt`, what
  // follows on the other trial's checkpoint that of what came later here.
  while (!points_.empty() && points_.back().time >= time) points_.pop_back();
  if (!points_.empty() && points_.back().reports < per_point_) {
    CurvePoint& last = points_.back();
    ++last.reports;
    last.value += (value - last.value) / last.reports;
    return;
  }
  points_.push_back({time, value, 1});
  if (points_.size() <= kPointsMax) return;
  std::vector<CurvePoint> merged;
  for (std::size_t i = 0; i < points_.size(); i += 2) {
    CurvePoint point = points_[i];
    if (i + 1 < points_.size()) {
      const CurvePoint& next = points_[i + 1];
      const double all = static_cast<double>(point.reports) + next.reports;
      point.value += (next.value - point.value) * (next.reports / all);
      point.reports += next.reports;
    }
    merged.push_back(point);
  }
  points_ = std::move(merged);
  per_point_ *= 2;
}

}  // namespace train
