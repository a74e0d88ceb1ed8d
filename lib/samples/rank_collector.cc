#include "lib/samples/rank_collector.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <tuple>
#include <utility>

#include "lib/base/utf8.h"

namespace train {
namespace {

using Row = RankCollector::Row;

constexpr double kUnknown = Row::kUnknown;
constexpr std::int64_t kSpanMs = 1000;
constexpr std::int64_t kNumberMax = std::int64_t{1} << 55;
constexpr std::size_t kStateBytesMax = 8;
constexpr std::size_t kTextBytesMax = 170;      // of a phase: its name has 64 bytes, its text 96
constexpr std::int64_t kApartMax = 60'000'000;  // in µs: rates are not taken over longer times

/// The phases whose parts of the time are columns, in the order of Counters::waits_us.
constexpr std::array kWaits{Phase::Data, Phase::Collective, Phase::Checkpoint, Phase::Report};

double per_second(std::int64_t amount, std::int64_t us) {
  return static_cast<double>(std::max<std::int64_t>(amount, 0)) * 1e6 / static_cast<double>(us);
}

double seconds_of(std::int64_t us) { return static_cast<double>(us) / 1e6; }

/// Return how long the loop was in the phase, with the interval that has not ended yet.
std::int64_t time_in(const WorkerProgress& progress, Phase phase) {
  const auto index = static_cast<std::size_t>(phase);
  if (index >= progress.intervals.size()) return 0;
  return progress.intervals[index].total_us + (progress.phase == phase ? progress.quiet_us : 0);
}

std::string doing_text(const WorkerProgress& progress) {
  if (progress.name.empty() || progress.text.empty()) return progress.name + progress.text;
  return progress.name + ": " + progress.text;
}

// ---- columns

struct NumberColumn {
  std::string_view field;
  double Row::*value;
};
struct TextColumn {
  std::string_view field;
  std::string Row::*value;
};
constexpr std::array kNumbers{
    NumberColumn{"pid", &Row::pid},
    NumberColumn{"quiet_s", &Row::quiet_s},
    NumberColumn{"steps", &Row::steps},
    NumberColumn{"step_s", &Row::step_s},
    NumberColumn{"steps_per_s", &Row::steps_per_s},
    NumberColumn{"collectives", &Row::collectives},
    NumberColumn{"data_wait", &Row::data_wait},
    NumberColumn{"collective_wait", &Row::collective_wait},
    NumberColumn{"checkpoint_wait", &Row::checkpoint_wait},
    NumberColumn{"report_wait", &Row::report_wait},
    NumberColumn{"cpu", &Row::cpu},
    NumberColumn{"cpu_wait", &Row::cpu_wait},
    NumberColumn{"rss", &Row::rss},
    NumberColumn{"memory_limit", &Row::memory_limit},
    NumberColumn{"processes", &Row::processes},
    NumberColumn{"threads", &Row::threads},
    NumberColumn{"read_per_s", &Row::read_per_s},
    NumberColumn{"written_per_s", &Row::written_per_s},
    NumberColumn{"switches_per_s", &Row::switches_per_s},
};
constexpr std::array kTexts{
    TextColumn{"node", &Row::node},   TextColumn{"state", &Row::state},
    TextColumn{"phase", &Row::phase}, TextColumn{"waits_in", &Row::waits_in},
    TextColumn{"cpus", &Row::cpus},   TextColumn{"doing", &Row::doing},
};

SampleTable rank_table(const std::vector<const Row*>& rows) {
  SampleTable table{.kind = SampleKind::Ranks};
  table.rows.reserve(rows.size());
  for (const Row* row : rows) table.rows.push_back(std::to_string(row->rank.value));
  for (const SampleField& field : sample_fields(SampleKind::Ranks)) {
    SampleColumn column{.field = &field};
    const auto named = [&field](const auto& one) { return one.field == field.name; };
    if (const auto* text = std::find_if(kTexts.begin(), kTexts.end(), named);
        text != kTexts.end()) {
      for (const Row* row : rows) column.texts.push_back(row->*text->value);
    } else if (const auto* number = std::find_if(kNumbers.begin(), kNumbers.end(), named);
               number != kNumbers.end()) {
      for (const Row* row : rows) column.numbers.push_back(row->*number->value);
    }
    table.columns.push_back(std::move(column));
  }
  return table;
}

// ---- sums

enum class Statistic { Sum, Minimum, Median, P99, Maximum };
struct SumColumn {
  std::string_view field;
  double Row::*value;
  Statistic statistic;
};
constexpr std::array kSums{
    SumColumn{"steps_min", &Row::steps, Statistic::Minimum},
    SumColumn{"quiet_s_max", &Row::quiet_s, Statistic::Maximum},
    SumColumn{"step_s_p50", &Row::step_s, Statistic::Median},
    SumColumn{"step_s_p99", &Row::step_s, Statistic::P99},
    SumColumn{"step_s_max", &Row::step_s, Statistic::Maximum},
    SumColumn{"steps_per_s_p50", &Row::steps_per_s, Statistic::Median},
    SumColumn{"data_wait_p50", &Row::data_wait, Statistic::Median},
    SumColumn{"data_wait_p99", &Row::data_wait, Statistic::P99},
    SumColumn{"data_wait_max", &Row::data_wait, Statistic::Maximum},
    SumColumn{"collective_wait_p50", &Row::collective_wait, Statistic::Median},
    SumColumn{"collective_wait_p99", &Row::collective_wait, Statistic::P99},
    SumColumn{"collective_wait_max", &Row::collective_wait, Statistic::Maximum},
    SumColumn{"checkpoint_wait_p50", &Row::checkpoint_wait, Statistic::Median},
    SumColumn{"report_wait_p50", &Row::report_wait, Statistic::Median},
    SumColumn{"cpu_sum", &Row::cpu, Statistic::Sum},
    SumColumn{"cpu_p50", &Row::cpu, Statistic::Median},
    SumColumn{"cpu_p99", &Row::cpu, Statistic::P99},
    SumColumn{"cpu_max", &Row::cpu, Statistic::Maximum},
    SumColumn{"cpu_wait_p50", &Row::cpu_wait, Statistic::Median},
    SumColumn{"cpu_wait_max", &Row::cpu_wait, Statistic::Maximum},
    SumColumn{"rss_sum", &Row::rss, Statistic::Sum},
    SumColumn{"rss_p50", &Row::rss, Statistic::Median},
    SumColumn{"rss_p99", &Row::rss, Statistic::P99},
    SumColumn{"rss_max", &Row::rss, Statistic::Maximum},
    SumColumn{"threads_sum", &Row::threads, Statistic::Sum},
    SumColumn{"read_per_s_sum", &Row::read_per_s, Statistic::Sum},
    SumColumn{"written_per_s_sum", &Row::written_per_s, Statistic::Sum},
};

/// Return the statistic of the values, which are sorted.
double statistic_of(std::span<const double> sorted, Statistic statistic) {
  if (sorted.empty()) return kUnknown;
  const auto quantile = [sorted](std::size_t percent) {  // the nearest rank
    return sorted[(sorted.size() * percent + 99) / 100 - 1];
  };
  switch (statistic) {
    case Statistic::Sum: {
      double sum = 0;
      for (const double value : sorted) sum += value;
      return sum;
    }
    case Statistic::Minimum:
      return sorted.front();
    case Statistic::Median:
      return quantile(50);
    case Statistic::P99:
      return quantile(99);
    case Statistic::Maximum:
      return sorted.back();
  }
  return kUnknown;
}

SampleTable sum_table(const std::vector<const Row*>& rows) {
  std::map<std::string_view, std::vector<const Row*>> nodes;
  for (const Row* row : rows) nodes[row->node].push_back(row);
  SampleTable table{.kind = SampleKind::RankSums};
  table.columns.push_back({.field = find_sample_field(table.kind, "ranks")});
  for (const SumColumn& sum : kSums)
    table.columns.push_back({.field = find_sample_field(table.kind, sum.field)});
  std::vector<double> values;
  for (const auto& [node, of_node] : nodes) {
    table.rows.emplace_back(node);
    table.columns.front().numbers.push_back(static_cast<double>(of_node.size()));
    for (std::size_t i = 0; i < kSums.size(); ++i) {
      if (i == 0 || kSums[i].value != kSums[i - 1].value) {  // neighbours share the sorted values
        values.clear();
        for (const Row* row : of_node)
          if (!std::isnan(row->*kSums[i].value)) values.push_back(row->*kSums[i].value);
        std::sort(values.begin(), values.end());
      }
      table.columns[i + 1].numbers.push_back(statistic_of(values, kSums[i].statistic));
    }
  }
  return table;
}

/// Return the worst ranks: those with the fewest steps; among equals the longest silence, then the
/// shortest waits in collective calls. In the order of their ranks.
std::vector<const Row*> worst_of(std::vector<const Row*> rows) {
  const auto badness = [](const Row* row) {
    const auto known = [](double value, double otherwise) {
      return std::isnan(value) ? otherwise : value;
    };
    return std::tuple(known(row->steps, 0), -known(row->quiet_s, 0), known(row->collective_wait, 0),
                      row->rank.value);
  };
  const auto end = rows.begin() + static_cast<std::ptrdiff_t>(std::min(kWorstRanks, rows.size()));
  std::partial_sort(rows.begin(), end, rows.end(),
                    [&badness](const Row* a, const Row* b) { return badness(a) < badness(b); });
  rows.erase(end, rows.end());
  std::sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) { return a->rank < b->rank; });
  return rows;
}

}  // namespace

RankCollector::Counters RankCollector::counters_of(const RankSample& sample, std::int64_t at_us) {
  const ProcessSample& process = sample.process;
  Counters counters{.pid = process.pid,
                    .at_us = at_us,
                    .cpu_us = process.cpu_us,
                    .cpu_wait_us = process.cpu_wait_us,
                    .read_bytes = process.read_bytes,
                    .written_bytes = process.written_bytes,
                    .switches = process.context_switches,
                    .steps = static_cast<std::int64_t>(
                        std::min<std::uint64_t>(sample.progress.steps, kNumberMax))};
  for (std::size_t i = 0; i < kWaits.size(); ++i)
    counters.waits_us[i] = time_in(sample.progress, kWaits[i]);
  return counters;
}

Row RankCollector::row_of(const RankSample& sample, const std::string& node) {
  const ProcessSample& process = sample.process;
  const WorkerProgress& progress = sample.progress;
  const bool marks = progress.phase != Phase::None;  // else the program does not use the SDK
  const bool lives = process.processes > 0;
  const auto known = [](bool is, auto value) { return is ? static_cast<double>(value) : kUnknown; };
  Row row{.rank = sample.rank, .node = node};
  row.state = utf8_text(process.state, kStateBytesMax);
  row.waits_in = utf8_text(process.waits_in, kTextBytesMax);
  row.cpus = utf8_text(process.cpus, kTextBytesMax);
  if (marks) row.phase = to_string(progress.phase);
  row.doing = utf8_text(doing_text(progress), kTextBytesMax);
  row.pid = known(lives, process.pid);
  row.quiet_s = known(marks, seconds_of(progress.quiet_us));
  row.steps = known(marks, progress.steps);
  row.step_s = known(progress.last_step_us > 0, seconds_of(progress.last_step_us));
  row.collectives = known(marks, progress.collectives);
  row.rss = known(lives, process.resident_bytes);
  row.memory_limit = known(process.memory_limit > 0, process.memory_limit);
  row.processes = known(lives, process.processes);
  row.threads = known(lives, process.threads);
  return row;
}

/// Set the row's rates, if both samples are of one process.
void RankCollector::add_rates(Row& row, const Counters& before, const Counters& now) {
  const std::int64_t us = now.at_us - before.at_us;
  if (us <= 0 || us > kApartMax || now.pid != before.pid) return;
  const auto part = [us](std::int64_t time) {
    return std::clamp(per_second(time, us) / 1e6, 0., 1.);
  };
  if (!std::isnan(row.pid)) {
    row.cpu = per_second(now.cpu_us - before.cpu_us, us) / 1e6;
    row.cpu_wait = part(now.cpu_wait_us - before.cpu_wait_us);
    row.read_per_s = per_second(now.read_bytes - before.read_bytes, us);
    row.written_per_s = per_second(now.written_bytes - before.written_bytes, us);
    row.switches_per_s = per_second(now.switches - before.switches, us);
  }
  if (std::isnan(row.steps)) return;
  row.steps_per_s = per_second(now.steps - before.steps, us);
  constexpr std::array kParts{&Row::data_wait, &Row::collective_wait, &Row::checkpoint_wait,
                              &Row::report_wait};
  for (std::size_t i = 0; i < kParts.size(); ++i)
    row.*kParts[i] = part(now.waits_us[i] - before.waits_us[i]);
}

void RankCollector::sampled(Attempt attempt, const std::string& node, std::int64_t taken_us,
                            std::span<const RankSample> ranks, TimePoint now) {
  if (attempt < attempt_) return;
  if (attempt > attempt_) {
    ranks_.clear();
    on_node_.clear();
  }
  attempt_ = attempt;
  const std::int64_t at_us =
      taken_us > 0
          ? std::min(taken_us, kNumberMax)
          : std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count();
  for (const RankSample& sample : ranks) {
    const Counters counters = counters_of(sample, at_us);
    Row row = row_of(sample, node);
    const auto known = ranks_.find(sample.rank);
    const bool same_node = known != ranks_.end() && known->second.row.node == node;
    if (same_node) {
      add_rates(row, known->second.counters, counters);
    } else {
      if (known != ranks_.end()) on_node_[known->second.row.node].erase(sample.rank);
      on_node_[node].insert(sample.rank);
    }
    ranks_.insert_or_assign(sample.rank, Known{std::move(row), counters, now});
  }
}

void RankCollector::ended(Attempt attempt, Rank rank) {
  const auto known = attempt == attempt_ ? ranks_.find(rank) : ranks_.end();
  if (known == ranks_.end()) return;
  on_node_[known->second.row.node].erase(rank);
  ranks_.erase(known);
}

std::vector<const Row*> RankCollector::fresh(TimePoint now) const {
  std::vector<const Row*> rows;
  rows.reserve(ranks_.size());
  for (const auto& [rank, known] : ranks_)
    if (now - known.sampled_at <= kRankSampleAgeMax) rows.push_back(&known.row);
  return rows;
}

std::vector<std::int32_t> RankCollector::ranks_on(const std::string& node) const {
  std::vector<std::int32_t> ranks;
  if (const auto found = on_node_.find(node); found != on_node_.end())
    for (const Rank rank : found->second) ranks.push_back(rank.value);
  return ranks;
}

SampleTable RankCollector::newest(TimePoint now, std::int64_t wall_ms) const {
  SampleTable table = rank_table(fresh(now));
  table.end_ms = wall_ms;
  table.span_ms = kSpanMs;
  table.attempt = attempt_.value;
  return table;
}

std::vector<SampleTable> RankCollector::kept(TimePoint now, std::int64_t wall_ms) const {
  std::vector<const Row*> rows = fresh(now);
  std::vector<SampleTable> tables;
  if (rows.empty()) return tables;
  if (rows.size() <= kRanksKeptMax) {
    tables.push_back(rank_table(rows));
  } else {
    tables.push_back(sum_table(rows));
    const auto total = static_cast<std::uint32_t>(rows.size());
    tables.push_back(rank_table(worst_of(std::move(rows))));
    tables.back().total = total;
  }
  for (SampleTable& table : tables) {
    table.end_ms = wall_ms;
    table.span_ms = kSpanMs;
    table.attempt = attempt_.value;
  }
  return tables;
}

}  // namespace train
