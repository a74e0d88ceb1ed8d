#include "launcher/dashboard/report_readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lib/observe/metrics_log.h"

namespace train {
namespace {

constexpr std::uint64_t kAll = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kPieceBytes = 4u << 20;
constexpr std::size_t kReportBytesMax = 128u << 10;

}  // namespace

RankSeriesReader::RankSeriesReader(const FolderFiles& files, std::int32_t rank)
    : files_(files), prefix_(fmt::format("{{\"rank\":{},", rank)) {}

void RankSeriesReader::update() {
  (void)lines_.update(
      files_, kAll,
      [&](std::string_view line, std::uint64_t offset) {
        if (!line.starts_with(prefix_)) return true;
        if (const auto report = parse_report_line(line)) series_.add(*report, offset);
        return true;
      },
      [&] { series_ = MetricSeries(); });
}

SeriesPart RankSeriesReader::part(const std::vector<std::string>& keys, std::uint64_t from,
                                  std::uint64_t to, std::size_t points) const {
  const auto& starts = series_.starts();
  const auto after = [](std::uint64_t report, const BucketStart& start) {
    return report < start.report;
  };
  const auto first = std::upper_bound(starts.begin(), starts.end(), from, after);
  const auto last = std::upper_bound(starts.begin(), starts.end(), to, after);
  const auto buckets = static_cast<std::size_t>(last - first) + 1;
  const std::uint64_t end = last == starts.end() ? lines_.offset() : last->offset;
  const bool is_coarse = series_.per_bucket() > 1 && buckets < points && first != starts.begin();
  if (!is_coarse || end - std::prev(first)->offset > kReadAgainBytesMax)
    return series_part(series_, keys, from, to, points);
  return series_part(read_again(*std::prev(first), to), keys, from, to, points);
}

MetricSeries RankSeriesReader::read_again(const BucketStart& start, std::uint64_t to) const {
  MetricSeries fine(1, start.report);
  std::uint64_t offset = start.offset;
  while (fine.reports() < to && offset < lines_.offset()) {
    const auto read = files_.read("metrics.jsonl", offset, kPieceBytes);
    if (!read) break;
    std::string_view rest = read->text;
    for (std::size_t end = rest.find('\n'); end != rest.npos && fine.reports() < to;
         end = rest.find('\n')) {
      const std::string_view line = rest.substr(0, end);
      if (line.starts_with(prefix_))
        if (const auto report = parse_report_line(line)) fine.add(*report, offset);
      rest.remove_prefix(end + 1);
      offset += end + 1;
    }
    if (rest.size() == read->text.size()) break;  // no whole line in it
  }
  return fine;
}

void RankReportsReader::update() {
  (void)lines_.update(
      files_, kAll,
      [&](std::string_view line, std::uint64_t offset) {
        const auto front = parse_report_front(line);
        if (!front || (ranks_.size() == kRanksMax && !ranks_.contains(front->rank))) return true;
        ranks_[front->rank] = {front->attempt, front->last_report_seq, offset};
        return true;
      },
      [&] { ranks_.clear(); });
}

std::optional<ReportRecord> RankReportsReader::newest(std::int32_t rank) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return std::nullopt;
  const auto read = files_.read("metrics.jsonl", found->second.offset, kReportBytesMax);
  if (!read) return std::nullopt;
  auto report = parse_report_line(std::string_view(read->text).substr(0, read->text.find('\n')));
  return report && report->rank == rank ? report : std::nullopt;
}

}  // namespace train
