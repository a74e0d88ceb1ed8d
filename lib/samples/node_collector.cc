#include "lib/samples/node_collector.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/base/rank_ranges.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

using Rates = NodeCollector::Rates;
using GpuOfNode = std::pair<std::string, const GpuSample*>;  // row, sample

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kNumberMax = std::int64_t{1} << 55;
constexpr std::int64_t kApartMax = 60'000'000;  // in µs: rates are not taken over longer times
constexpr std::size_t kTextBytesMax = 128;

double known(std::int64_t value) { return value < 0 ? kUnknown : static_cast<double>(value); }
double scaled(std::int64_t value, double unit) { return known(value) / unit; }

void keep_in_range(auto& sample) {
  sample.visit_fields([](auto&... fields) {
    const auto keep = [](auto& field) {
      if constexpr (std::is_same_v<std::decay_t<decltype(field)>, std::string>)
        field = utf8_text(field, kTextBytesMax);
      else
        field = std::clamp<std::int64_t>(field, kNotKnown, kNumberMax);
    };
    (keep(fields), ...);
  });
}

Rates rates_of(const NodeTold& before, const NodeTold& now) {
  const std::int64_t us = now.taken_us - before.taken_us;
  const auto rate = [us](std::int64_t from, std::int64_t to) {
    if (us <= 0 || us > kApartMax || from < 0 || to < from) return kUnknown;
    return static_cast<double>(to - from) * 1e6 / static_cast<double>(us);
  };
  const auto part = [&rate](std::int64_t from, std::int64_t to) {
    const double of_time = rate(from, to) / 1e6;
    return of_time > 1 ? 1. : of_time;
  };
  const NodeSample &a = before.node, &b = now.node;
  return {.cpu = rate(a.cpu_us, b.cpu_us) / 1e6,
          .read_per_s = rate(a.read_bytes, b.read_bytes),
          .written_per_s = rate(a.written_bytes, b.written_bytes),
          .received_per_s = rate(a.received_bytes, b.received_bytes),
          .sent_per_s = rate(a.sent_bytes, b.sent_bytes),
          .cpu_pressure = part(a.cpu_pressure_us, b.cpu_pressure_us),
          .memory_pressure = part(a.memory_pressure_us, b.memory_pressure_us),
          .io_pressure = part(a.io_pressure_us, b.io_pressure_us)};
}

void add_numbers(SampleTable& table, std::string_view field, const auto& rows, const auto& value) {
  SampleColumn column{.field = find_sample_field(table.kind, field)};
  for (const auto& row : rows) column.numbers.push_back(value(row));
  table.columns.push_back(std::move(column));
}
void add_texts(SampleTable& table, std::string_view field, const auto& rows, const auto& value) {
  SampleColumn column{.field = find_sample_field(table.kind, field)};
  for (const auto& row : rows) column.texts.push_back(value(row));
  table.columns.push_back(std::move(column));
}

void add_gpu_columns(SampleTable& table, const std::vector<GpuOfNode>& gpus) {
  const auto number = [&](std::string_view field, std::int64_t GpuSample::*value, double unit = 1) {
    add_numbers(table, field, gpus,
                [&](const GpuOfNode& gpu) { return scaled(gpu.second->*value, unit); });
  };
  const auto text = [&](std::string_view field, std::string GpuSample::*value) {
    add_texts(table, field, gpus, [&](const GpuOfNode& gpu) { return gpu.second->*value; });
  };
  text("name", &GpuSample::name);
  text("state", &GpuSample::state);
  number("use", &GpuSample::use_percent, 100);
  number("memory_use", &GpuSample::memory_use_percent, 100);
  number("memory", &GpuSample::memory_bytes);
  number("memory_used", &GpuSample::memory_used_bytes);
  number("power_w", &GpuSample::power_mw, 1000);
  number("power_limit_w", &GpuSample::power_limit_mw, 1000);
  number("temperature_c", &GpuSample::temperature_c);
  number("clock_mhz", &GpuSample::clock_mhz);
  number("memory_clock_mhz", &GpuSample::memory_clock_mhz);
  text("slowed_by", &GpuSample::slowed_by);
  number("ecc_corrected", &GpuSample::ecc_corrected);
  number("ecc_uncorrected", &GpuSample::ecc_uncorrected);
  number("xids", &GpuSample::xids);
  add_numbers(table, "last_xid", gpus, [](const GpuOfNode& gpu) {
    return gpu.second->xids > 0 ? known(gpu.second->last_xid) : kUnknown;
  });
  text("foreign", &GpuSample::foreign);
}

}  // namespace

std::string NodeCollector::ranks_of_gpu(const std::string& node, const std::string& gpu,
                                        std::span<const std::int32_t> ranks, GrantedGpus of) const {
  const auto known = nodes_.find(node);
  if (known == nodes_.end() || ranks.empty()) return {};
  const std::vector<std::string>& granted = known->second.told.granted;
  const auto found = std::find(granted.begin(), granted.end(), gpu);
  if (found == granted.end()) return {};
  auto place = static_cast<std::size_t>(found - granted.begin());
  if (place < of.first || place - of.first >= of.count) return {};
  // Local rank i of n uses the i-th n-th of the GPUs; if there are fewer, several share one.
  const std::size_t count = std::min(of.count, granted.size() - of.first), n = ranks.size();
  place -= of.first;
  std::vector<std::int32_t> users;
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t first = i * count / n;
    const std::size_t end = std::max((i + 1) * count / n, first + 1);
    if (place >= first && place < end) users.push_back(ranks[i]);
  }
  return rank_ranges(users);
}

const NodeTold& NodeCollector::sampled(const std::string& node, NodeTold told, TimePoint now) {
  keep_in_range(told.node);
  if (told.gpus.size() > kNodeGpusMax) told.gpus.resize(kNodeGpusMax);
  if (told.granted.size() > kNodeGpusMax) told.granted.resize(kNodeGpusMax);
  for (GpuSample& gpu : told.gpus) keep_in_range(gpu);
  told.taken_us = std::clamp<std::int64_t>(told.taken_us, 0, kNumberMax);
  const auto before = nodes_.find(node);
  const Rates rates = rates_of(before == nodes_.end() ? NodeTold{} : before->second.told, told);
  return nodes_.insert_or_assign(node, Known{std::move(told), rates, now}).first->second.told;
}

std::vector<std::pair<const std::string*, const NodeCollector::Known*>> NodeCollector::fresh(
    TimePoint now) const {
  std::vector<std::pair<const std::string*, const Known*>> rows;
  for (const auto& [node, told] : nodes_)
    if (now - told.sampled_at <= kNodeSampleAgeMax) rows.emplace_back(&node, &told);
  return rows;
}

std::vector<SampleTable> NodeCollector::newest(TimePoint now, std::int64_t wall_ms,
                                               std::int64_t span_ms, std::uint32_t attempt,
                                               const RanksOf& ranks_of) const {
  const auto rows = fresh(now);
  SampleTable nodes{.kind = SampleKind::Nodes};
  SampleTable gpus{.kind = SampleKind::Gpus};
  std::vector<GpuOfNode> all_gpus;
  std::vector<std::string> users;
  for (const auto& [node, told] : rows) {
    nodes.rows.push_back(*node);
    const std::vector<std::int32_t> ranks = ranks_of(*node);
    for (const GpuSample& gpu : told->told.gpus) {
      gpus.rows.push_back(*node + "/" + gpu.gpu);
      all_gpus.emplace_back(gpus.rows.back(), &gpu);
      users.push_back(ranks_of_gpu(*node, gpu.gpu, ranks));
    }
  }
  const auto number = [&](std::string_view field, std::int64_t NodeSample::*value,
                          double unit = 1) {
    add_numbers(nodes, field, rows,
                [&](const auto& row) { return scaled(row.second->told.node.*value, unit); });
  };
  const auto rate = [&](std::string_view field, double Rates::*value) {
    add_numbers(nodes, field, rows, [&](const auto& row) { return row.second->rates.*value; });
  };
  number("cpus", &NodeSample::cpus);
  rate("cpu", &Rates::cpu);
  number("load", &NodeSample::load_hundredths, 100);
  number("memory", &NodeSample::memory_bytes);
  number("memory_used", &NodeSample::memory_used_bytes);
  number("swap_used", &NodeSample::swap_used_bytes);
  number("spool_free", &NodeSample::spool_free_bytes);
  number("spool_size", &NodeSample::spool_bytes);
  rate("read_per_s", &Rates::read_per_s);
  rate("written_per_s", &Rates::written_per_s);
  rate("received_per_s", &Rates::received_per_s);
  rate("sent_per_s", &Rates::sent_per_s);
  rate("cpu_pressure", &Rates::cpu_pressure);
  rate("memory_pressure", &Rates::memory_pressure);
  rate("io_pressure", &Rates::io_pressure);
  add_gpu_columns(gpus, all_gpus);
  gpus.columns.push_back(
      {.field = find_sample_field(SampleKind::Gpus, "ranks"), .texts = std::move(users)});
  std::vector<SampleTable> tables;
  for (SampleTable* table : {&nodes, &gpus}) {
    if (table->rows.empty()) continue;
    table->end_ms = wall_ms;
    table->span_ms = span_ms;
    table->attempt = attempt;
    tables.push_back(std::move(*table));
  }
  return tables;
}

}  // namespace train
