#include "lib/samples/sample_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

namespace train {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr auto kMean = SampleMerge::Mean;
constexpr auto kMax = SampleMerge::Max;
constexpr auto kLast = SampleMerge::Last;

constexpr std::array kRankFields{
    SampleField{"node", kLast, true},
    SampleField{"pid", kLast},
    SampleField{"state", kLast, true},
    SampleField{"waits_in", kLast, true},
    SampleField{"cpus", kLast, true},
    SampleField{"phase", kLast, true},
    SampleField{"doing", kLast, true},
    SampleField{"quiet_s", kMax},
    SampleField{"steps", kLast},
    SampleField{"step_s", kMax},
    SampleField{"steps_per_s", kMean},
    SampleField{"collectives", kLast},
    SampleField{"data_wait", kMean},
    SampleField{"collective_wait", kMean},
    SampleField{"checkpoint_wait", kMean},
    SampleField{"report_wait", kMean},
    SampleField{"cpu", kMean},
    SampleField{"cpu_wait", kMean},
    SampleField{"rss", kMax},
    SampleField{"memory_limit", kLast},
    SampleField{"processes", kMax},
    SampleField{"threads", kMax},
    SampleField{"read_per_s", kMean},
    SampleField{"written_per_s", kMean},
    SampleField{"switches_per_s", kMean},
};

constexpr std::array kRankSumFields{
    SampleField{"ranks", kLast},
    SampleField{"steps_min", kLast},
    SampleField{"quiet_s_max", kMax},
    SampleField{"step_s_p50", kMean},
    SampleField{"step_s_p99", kMax},
    SampleField{"step_s_max", kMax},
    SampleField{"steps_per_s_p50", kMean},
    SampleField{"data_wait_p50", kMean},
    SampleField{"data_wait_p99", kMax},
    SampleField{"data_wait_max", kMax},
    SampleField{"collective_wait_p50", kMean},
    SampleField{"collective_wait_p99", kMax},
    SampleField{"collective_wait_max", kMax},
    SampleField{"checkpoint_wait_p50", kMean},
    SampleField{"report_wait_p50", kMean},
    SampleField{"cpu_sum", kMean},
    SampleField{"cpu_p50", kMean},
    SampleField{"cpu_p99", kMax},
    SampleField{"cpu_max", kMax},
    SampleField{"cpu_wait_p50", kMean},
    SampleField{"cpu_wait_max", kMax},
    SampleField{"rss_sum", kMax},
    SampleField{"rss_p50", kMean},
    SampleField{"rss_p99", kMax},
    SampleField{"rss_max", kMax},
    SampleField{"threads_sum", kMax},
    SampleField{"read_per_s_sum", kMean},
    SampleField{"written_per_s_sum", kMean},
};

constexpr std::array kNodeFields{
    SampleField{"cpus", kLast},           SampleField{"cpu", kMean},
    SampleField{"load", kMean},           SampleField{"memory", kLast},
    SampleField{"memory_used", kMax},     SampleField{"swap_used", kMax},
    SampleField{"spool_free", kLast},     SampleField{"spool_size", kLast},
    SampleField{"run_free", kLast},       SampleField{"run_size", kLast},
    SampleField{"read_per_s", kMean},     SampleField{"written_per_s", kMean},
    SampleField{"received_per_s", kMean}, SampleField{"sent_per_s", kMean},
    SampleField{"cpu_pressure", kMean},   SampleField{"memory_pressure", kMean},
    SampleField{"io_pressure", kMean},
};

constexpr std::array kGpuFields{
    SampleField{"name", kLast, true},      SampleField{"state", kLast, true},
    SampleField{"ranks", kLast, true},     SampleField{"use", kMean},
    SampleField{"memory_use", kMean},      SampleField{"memory", kLast},
    SampleField{"memory_used", kMax},      SampleField{"power_w", kMean},
    SampleField{"power_limit_w", kLast},   SampleField{"temperature_c", kMax},
    SampleField{"clock_mhz", kMean},       SampleField{"memory_clock_mhz", kMean},
    SampleField{"slowed_by", kLast, true}, SampleField{"ecc_corrected", kLast},
    SampleField{"ecc_uncorrected", kLast}, SampleField{"xids", kLast},
    SampleField{"last_xid", kLast},        SampleField{"foreign", kLast, true},
};

constexpr std::array kDataFields{
    SampleField{"rows_total", kLast}, SampleField{"bytes_total", kLast},
    SampleField{"rows_per_s", kMean}, SampleField{"bytes_per_s", kMean},
    SampleField{"busy", kMean},       SampleField{"input_wait", kMean},
    SampleField{"room_wait", kMean},  SampleField{"queue_bytes", kMean},
    SampleField{"busy_s", kLast},     SampleField{"input_s", kLast},
    SampleField{"room_s", kLast},     SampleField{"worst_rank", kLast},
    SampleField{"worst_wait", kMax},
};

/// Return each row's place in `rows`, which gets those that it lacks.
std::vector<std::size_t> places_of(const SampleTable& table, std::vector<std::string>& rows,
                                   std::unordered_map<std::string, std::size_t>& places) {
  std::vector<std::size_t> of_table;
  of_table.reserve(table.rows.size());
  for (const std::string& row : table.rows) {
    const auto [place, is_new] = places.try_emplace(row, rows.size());
    if (is_new) rows.push_back(row);
    of_table.push_back(place->second);
  }
  return of_table;
}

/// The rows of several tables: where each row of each table goes.
struct Rows {
  std::vector<std::string> names;
  std::vector<std::vector<std::size_t>> places;  // by table, by its row
};

Rows join_rows(std::span<const SampleTable> tables) {
  Rows rows;
  std::unordered_map<std::string, std::size_t> places;
  for (const SampleTable& table : tables) {
    if (!rows.places.empty() && table.rows == tables.front().rows)
      rows.places.push_back(rows.places.front());
    else
      rows.places.push_back(places_of(table, rows.names, places));
  }
  return rows;
}

SampleColumn merge_numbers(std::span<const SampleTable> tables, const Rows& rows,
                           const SampleField& field) {
  SampleColumn merged{.field = &field};
  merged.numbers.assign(rows.names.size(), kUnknown);
  std::vector<double> weights(field.merge == kMean ? rows.names.size() : 0, 0);
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const SampleColumn* column = tables[t].find(field.name);
    if (column == nullptr) continue;
    const double weight = static_cast<double>(std::max<std::int64_t>(tables[t].span_ms, 1));
    for (std::size_t row = 0; row < column->numbers.size(); ++row) {
      const double value = column->numbers[row];
      if (std::isnan(value)) continue;
      const std::size_t place = rows.places[t][row];
      double& to = merged.numbers[place];
      if (field.merge == kMean) {
        weights[place] += weight;
        to = std::isnan(to) ? value : to + (value - to) * weight / weights[place];
      } else {
        to = field.merge == kMax && to > value ? to : value;
      }
    }
  }
  return merged;
}

SampleColumn merge_texts(std::span<const SampleTable> tables, const Rows& rows,
                         const SampleField& field) {
  SampleColumn merged{.field = &field};
  merged.texts.resize(rows.names.size());
  for (std::size_t t = 0; t < tables.size(); ++t) {
    const SampleColumn* column = tables[t].find(field.name);
    for (std::size_t row = 0; row < rows.places[t].size(); ++row)
      merged.texts[rows.places[t][row]] = column == nullptr ? std::string() : column->texts[row];
  }
  return merged;
}

/// Put the rows into this order, and leave out those that it lacks.
void take_rows(SampleTable& table, const std::vector<std::size_t>& order) {
  const auto taken = [&order](auto& values) {
    std::decay_t<decltype(values)> some;
    some.reserve(order.size());
    for (const std::size_t row : order) some.push_back(std::move(values[row]));
    values = std::move(some);
  };
  taken(table.rows);
  for (SampleColumn& column : table.columns) {
    if (column.field->is_text)
      taken(column.texts);
    else
      taken(column.numbers);
  }
}

/// Ranks are in numerical order; of the worst ranks, those stay that were it most often.
void order_ranks(SampleTable& merged, const Rows& rows) {
  std::vector<std::size_t> order(merged.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (merged.total > 0 && order.size() > kWorstRanks) {
    std::vector<std::size_t> times(order.size(), 0);
    for (const auto& places : rows.places)
      for (const std::size_t place : places) ++times[place];
    std::stable_sort(order.begin(), order.end(),
                     [&times](std::size_t a, std::size_t b) { return times[a] > times[b]; });
    order.resize(kWorstRanks);
  }
  std::sort(order.begin(), order.end(), [&merged](std::size_t a, std::size_t b) {
    const std::string &x = merged.rows[a], &y = merged.rows[b];
    return x.size() != y.size() ? x.size() < y.size() : x < y;  // decimal numbers
  });
  take_rows(merged, order);
}

}  // namespace

std::optional<SampleKind> parse_sample_kind(std::string_view name) {
  const auto* found = std::find(kSampleKinds.begin(), kSampleKinds.end(), name);
  if (found == kSampleKinds.end()) return std::nullopt;
  return static_cast<SampleKind>(found - kSampleKinds.begin());
}

std::span<const SampleField> sample_fields(SampleKind kind) {
  switch (kind) {
    case SampleKind::Ranks:
      return kRankFields;
    case SampleKind::RankSums:
      return kRankSumFields;
    case SampleKind::Nodes:
      return kNodeFields;
    case SampleKind::Gpus:
      return kGpuFields;
    case SampleKind::Data:
      return kDataFields;
  }
  return {};
}

const SampleField* find_sample_field(SampleKind kind, std::string_view name) {
  for (const SampleField& field : sample_fields(kind))
    if (field.name == name) return &field;
  return nullptr;
}

const SampleColumn* SampleTable::find(std::string_view field) const {
  for (const SampleColumn& column : columns)
    if (column.field->name == field) return &column;
  return nullptr;
}

double SampleTable::number(std::string_view field, std::size_t row) const {
  const SampleColumn* column = find(field);
  return column == nullptr || row >= column->numbers.size() ? kUnknown : column->numbers[row];
}

std::string_view SampleTable::text(std::string_view field, std::size_t row) const {
  const SampleColumn* column = find(field);
  return column == nullptr || row >= column->texts.size() ? std::string_view() : column->texts[row];
}

SampleTable merge_samples(std::span<const SampleTable> tables) {
  SampleTable merged;
  if (tables.empty()) return merged;
  const SampleTable &first = tables.front(), &last = tables.back();
  merged.kind = last.kind;
  merged.attempt = last.attempt;
  merged.total = last.total;
  merged.end_ms = last.end_ms;
  merged.span_ms = std::max(last.end_ms - (first.end_ms - first.span_ms), last.span_ms);
  Rows rows = join_rows(tables);
  merged.rows = rows.names;
  for (const SampleField& field : sample_fields(merged.kind)) {
    const bool known = std::any_of(tables.begin(), tables.end(), [&field](const SampleTable& one) {
      return one.find(field.name) != nullptr;
    });
    if (!known) continue;
    merged.columns.push_back(field.is_text ? merge_texts(tables, rows, field)
                                           : merge_numbers(tables, rows, field));
  }
  if (merged.kind == SampleKind::Ranks) order_ranks(merged, rows);
  return merged;
}

}  // namespace train
