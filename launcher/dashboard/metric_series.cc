#include "launcher/dashboard/metric_series.h"

#include <algorithm>
#include <cmath>

namespace train {
namespace {

std::optional<double> epoch_in(const Metrics& metrics) {
  const auto epoch = number_of(metrics, "epoch");
  return epoch && std::isfinite(*epoch) ? epoch : std::nullopt;
}

}  // namespace

void MetricCell::add(double value) {
  ++count;
  last = value;
  if (!std::isfinite(value)) {
    ++non_finite;
    return;
  }
  min = std::min(min, value);
  max = std::max(max, value);
  sum += value;
}

void MetricCell::merge(const MetricCell& later) {
  if (later.count == 0) return;
  min = std::min(min, later.min);
  max = std::max(max, later.max);
  sum += later.sum;
  last = later.last;
  count += later.count;
  non_finite += later.non_finite;
}

void MetricSeries::add(const ReportRecord& report, std::uint64_t offset) {
  ++reports_;
  if (attempts_.empty() || attempts_.back().first != report.attempt)
    attempts_.emplace_back(report.attempt, reports_);
  const auto bucket = static_cast<std::size_t>((reports_ - first_report_) / per_bucket_);
  if (bucket == starts_.size())
    starts_.push_back({.report = reports_,
                       .wall_us = report.wall_us,
                       .epoch = epoch_in(report.metrics),
                       .offset = offset});
  for (const auto& [key, value] : report.metrics) add_value(key, value, bucket);
  while (starts_.size() > buckets_max()) halve();
}

void MetricSeries::add_value(const std::string& key, const MetricValue& value, std::size_t bucket) {
  if (key.size() > kKeyBytesMax) return;
  auto info = keys_.find(key);
  if (info == keys_.end()) {
    if (keys_.size() == kKeysMax) return;
    info = keys_.emplace(key, MetricInfo{}).first;
  }
  info->second.reports += 1;
  info->second.last = value;
  double number = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) {
    number = static_cast<double>(*whole);
  } else if (const auto* real = std::get_if<double>(&value)) {
    number = *real;
  } else {
    const bool is_bool = std::holds_alternative<bool>(value);
    info->second.kind = is_bool ? MetricInfo::Kind::Bool : MetricInfo::Kind::Text;
    return;
  }
  info->second.kind = MetricInfo::Kind::Number;
  info->second.all.add(number);
  std::vector<MetricCell>& cells = cells_[key];
  if (cells.size() <= bucket) cells.resize(bucket + 1);
  cells[bucket].add(number);
}

std::size_t MetricSeries::buckets_max() const {
  return std::clamp(kCellsMax / std::max<std::size_t>(cells_.size(), 1), kBucketsMin, kBucketsMax);
}

void MetricSeries::halve() {
  per_bucket_ *= 2;
  for (std::size_t i = 0; 2 * i < starts_.size(); ++i) starts_[i] = starts_[2 * i];
  starts_.resize((starts_.size() + 1) / 2);
  for (auto& [key, cells] : cells_) {
    for (std::size_t i = 0; 2 * i < cells.size(); ++i) {
      MetricCell merged = cells[2 * i];
      if (2 * i + 1 < cells.size()) merged.merge(cells[2 * i + 1]);
      cells[i] = merged;
    }
    cells.resize((cells.size() + 1) / 2);
  }
}

const std::vector<MetricCell>* MetricSeries::cells(const std::string& key) const {
  const auto found = cells_.find(key);
  return found == cells_.end() ? nullptr : &found->second;
}

SeriesPart series_part(const MetricSeries& series, const std::vector<std::string>& keys,
                       std::uint64_t from, std::uint64_t to, std::size_t points) {
  const auto& starts = series.starts();
  const auto by_report = [](const BucketStart& start, std::uint64_t report) {
    return start.report < report;
  };
  const auto first = static_cast<std::size_t>(
      std::lower_bound(starts.begin(), starts.end(), from, by_report) - starts.begin());
  const auto last = static_cast<std::size_t>(
      std::lower_bound(starts.begin(), starts.end(), to + 1, by_report) - starts.begin());
  const std::size_t step =
      std::max<std::size_t>((last - std::min(first, last) + points - 1) / points, 1);
  SeriesPart part{.from = from, .to = to, .per_bucket = series.per_bucket() * step};
  for (std::size_t i = first; i < last; i += step) part.starts.push_back(starts[i]);
  for (const std::string& key : keys) {
    const std::vector<MetricCell>* cells = series.cells(key);
    if (cells == nullptr) continue;
    std::vector<MetricCell>& merged = part.cells[key];
    for (std::size_t i = first; i < last; i += step) {
      MetricCell cell;
      for (std::size_t j = i; j < std::min({i + step, last, cells->size()}); ++j)
        cell.merge((*cells)[j]);
      merged.push_back(cell);
    }
  }
  return part;
}

}  // namespace train
