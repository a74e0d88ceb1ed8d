#include "launcher/dashboard/prometheus_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <tuple>

#include "lib/base/time.h"
#include "lib/observe/prometheus_text.h"
#include "lib/samples/data_rows.h"

namespace train {
namespace {

using MetricType = PrometheusText::Type;
using Labels = PrometheusText::Labels;

constexpr std::array<const char*, 12> kStates{"attaching", "scheduling", "preparing",    "starting",
                                              "running",   "pausing",    "tearing_down", "finished",
                                              "errored",   "stopped",    "interrupted",  "unknown"};

/// A column of samples and its metric.
struct SampleMetric {
  const char* field;
  const char* name;
  const char* help;
  MetricType type;
};
constexpr std::array kRankMetrics{
    SampleMetric{"steps", "trainrun_steps_total", "Steps that the rank has ended.",
                 MetricType::Counter},
    SampleMetric{"step_s", "trainrun_step_duration_seconds", "How long its newest step took.",
                 MetricType::Gauge},
    SampleMetric{"collectives", "trainrun_collectives_total", "Collective calls it has completed.",
                 MetricType::Counter},
    SampleMetric{"quiet_s", "trainrun_rank_silence_seconds", "Since its last sign of life.",
                 MetricType::Gauge},
    SampleMetric{"data_wait", "trainrun_data_wait_ratio", "Part of the time it waited for data.",
                 MetricType::Gauge},
    SampleMetric{"collective_wait", "trainrun_collective_wait_ratio",
                 "Part of the time it waited in collective calls.", MetricType::Gauge},
    SampleMetric{"cpu", "trainrun_worker_cpu_cores", "Cores that it uses.", MetricType::Gauge},
    SampleMetric{"rss", "trainrun_worker_resident_memory_bytes", "Memory in use.",
                 MetricType::Gauge},
    SampleMetric{"read_per_s", "trainrun_worker_read_bytes_per_second", "Bytes read.",
                 MetricType::Gauge},
    SampleMetric{"written_per_s", "trainrun_worker_written_bytes_per_second", "Bytes written.",
                 MetricType::Gauge},
};
constexpr std::array kNodeMetrics{
    SampleMetric{"cpu", "trainrun_node_cpu_cores", "Cores in use on the node.", MetricType::Gauge},
    SampleMetric{"memory", "trainrun_node_memory_bytes", "Memory of the node.", MetricType::Gauge},
    SampleMetric{"memory_used", "trainrun_node_memory_used_bytes", "Memory in use on the node.",
                 MetricType::Gauge},
    SampleMetric{"run_free", "trainrun_node_disk_free_bytes",
                 "Free bytes of the file system of the run's folder.", MetricType::Gauge},
};
constexpr std::array kGpuMetrics{
    SampleMetric{"use", "trainrun_gpu_utilization_ratio", "Part of the time that a kernel ran.",
                 MetricType::Gauge},
    SampleMetric{"memory_used", "trainrun_gpu_memory_used_bytes", "GPU memory in use.",
                 MetricType::Gauge},
    SampleMetric{"memory", "trainrun_gpu_memory_bytes", "Memory of the GPU.", MetricType::Gauge},
    SampleMetric{"power_w", "trainrun_gpu_power_watts", "Power that the GPU draws.",
                 MetricType::Gauge},
    SampleMetric{"temperature_c", "trainrun_gpu_temperature_celsius", "Temperature of the GPU.",
                 MetricType::Gauge},
    SampleMetric{"ecc_uncorrected", "trainrun_gpu_ecc_errors_total",
                 "Memory errors that were not corrected.", MetricType::Counter},
    SampleMetric{"xids", "trainrun_gpu_xid_errors_total", "Errors that the driver has reported.",
                 MetricType::Counter},
};

/// Of an operator of a dataset; labels rank, dataset and stage.
constexpr std::array kDataMetrics{
    SampleMetric{"rows_total", "trainrun_data_rows_total", "Rows that the operator has passed on.",
                 MetricType::Counter},
    SampleMetric{"bytes_total", "trainrun_data_bytes_total",
                 "Bytes that the operator has passed on.", MetricType::Counter},
    SampleMetric{"busy_s", "trainrun_data_busy_seconds_total", "Time that it was at work.",
                 MetricType::Counter},
    SampleMetric{"input_s", "trainrun_data_wait_seconds_total", "Time that it waited for rows.",
                 MetricType::Counter},
    SampleMetric{"room_s", "trainrun_data_room_wait_seconds_total",
                 "Time that it waited until somebody took its rows.", MetricType::Counter},
    SampleMetric{"queue_bytes", "trainrun_data_queue_bytes", "Bytes that wait behind it.",
                 MetricType::Gauge},
};

double seconds_of(const std::string& time) {
  return std::chrono::duration<double>(parse_utc(time).time_since_epoch()).count();
}

/// Return the runs that are shown one by one.
std::vector<const RunMetrics*> shown_runs(const std::vector<RunMetrics>& runs,
                                          std::chrono::system_clock::time_point now,
                                          const MetricLimits& limits) {
  const double now_s = std::chrono::duration<double>(now.time_since_epoch()).count();
  std::vector<const RunMetrics*> shown;
  for (const RunMetrics& run : runs) {
    const bool ended_lately =
        !run.row.ended.empty() && now_s - seconds_of(run.row.ended) < limits.ended_for_s;
    if (run.row.live || ended_lately) shown.push_back(&run);
  }
  std::stable_sort(shown.begin(), shown.end(), [](const RunMetrics* a, const RunMetrics* b) {
    return std::tie(b->row.live, b->row.began) < std::tie(a->row.live, a->row.began);
  });
  if (shown.size() > limits.runs) shown.resize(limits.runs);
  return shown;
}

void add_run(PrometheusText& out, const RunMetrics& run, const MetricLimits& limits) {
  const RunRow& row = run.row;
  const Labels labels{{"run", row.id}};
  out.gauge("trainrun_run_info", "1 for each run; its labels tell about it.", 1,
            {{"run", row.id}, {"name", row.name}, {"owner", row.owner}, {"host", row.host}});
  for (const char* state : kStates)
    out.gauge("trainrun_run_state", "1 for the state that the run is in.",
              row.state == state ? 1 : 0, {{"run", row.id}, {"state", state}});
  out.gauge("trainrun_run_start_timestamp_seconds", "When the run began.", seconds_of(row.began),
            labels);
  if (row.workers)
    out.gauge("trainrun_run_workers", "Workers of the newest attempt.",
              static_cast<double>(*row.workers), labels);
  out.counter("trainrun_run_attempts_total", "Attempts that have begun.",
              static_cast<double>(row.attempts), labels);
  out.counter("trainrun_run_failed_attempts_total", "Attempts that ended by a failure.",
              static_cast<double>(run.failed_attempts), labels);
  out.counter("trainrun_run_checkpoints_total", "Checkpoints that were committed.",
              static_cast<double>(run.checkpoints), labels);
  if (!row.last_report.empty())
    out.gauge("trainrun_run_last_report_timestamp_seconds", "When rank 0 reported last.",
              seconds_of(row.last_report), labels);
  if (row.goodput_ratio)
    out.gauge("trainrun_goodput_ratio", "Part of the workers' time that was productive.",
              *row.goodput_ratio, labels);
  std::size_t datasets = 0;
  for (const auto& [dataset, counts] : run.ingest) {
    if (++datasets > limits.values) break;
    const Labels of_dataset{{"run", row.id}, {"dataset", dataset}};
    out.gauge("trainrun_ingest_workers", "Ingest workers that there are to be.",
              static_cast<double>(counts.wanted), of_dataset);
    out.gauge("trainrun_ingest_workers_serving", "Ingest workers that serve now.",
              static_cast<double>(counts.serving), of_dataset);
    out.counter("trainrun_ingest_worker_deaths_total", "Processes of ingest workers that died.",
                static_cast<double>(counts.deaths), of_dataset);
  }
  std::size_t values = 0;
  for (const auto& [key, value] : row.metrics) {
    const auto number = number_of(row.metrics, key);
    if (!number || ++values > limits.values) continue;
    out.gauge("trainrun_metric_value", "Newest value of a metric that rank 0 reports.", *number,
              {{"run", row.id}, {"key", key}});
  }
}

template <class Metrics>
void add_table(PrometheusText& out, const SampleTable& table, const Metrics& metrics,
               const std::function<Labels(const std::string& row)>& labels) {
  for (const SampleMetric& metric : metrics) {
    if (table.find(metric.field) == nullptr) continue;
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const double value = table.number(metric.field, i);
      if (std::isfinite(value))
        out.add(metric.type, metric.name, metric.help, value, labels(table.rows[i]));
    }
  }
}

/// Return "node" and "gpu" of "node-a/0".
Labels gpu_labels(const std::string& run, const std::string& row) {
  const std::size_t slash = row.rfind('/');
  return {{"run", run},
          {"node", row.substr(0, slash)},
          {"gpu", slash == row.npos ? "" : row.substr(slash + 1)}};
}

/// Return the operator of a row of one rank.
std::optional<Labels> operator_labels(const std::string& run, const std::string& name) {
  const auto row = parse_data_row(name);
  if (!row || !row->rank) return std::nullopt;
  std::string stage(row->operation);
  std::replace(stage.begin(), stage.end(), ' ', '_');
  return Labels{{"run", run},
                {"rank", std::to_string(*row->rank)},
                {"dataset", std::string(row->dataset)},
                {"stage", std::move(stage)}};
}

/// Add the operators of datasets, as far as `operators` of all runs are not more than the limit.
void add_operators(PrometheusText& out, const SampleTable& table, const std::string& run,
                   std::size_t& operators, const MetricLimits& limits) {
  if (operators + table.rows.size() > limits.operators) return;
  operators += table.rows.size();
  for (const SampleMetric& metric : kDataMetrics) {
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const double value = table.number(metric.field, i);
      const auto labels = operator_labels(run, table.rows[i]);
      if (labels && std::isfinite(value))
        out.add(metric.type, metric.name, metric.help, value, *labels);
    }
  }
}

void add_samples(PrometheusText& out, const RunMetrics& run, std::size_t& ranks,
                 std::size_t& operators, const MetricLimits& limits) {
  const std::string& id = run.row.id;
  for (const SampleTable& table : run.samples) {
    if (table.kind == SampleKind::Data) {
      add_operators(out, table, id, operators, limits);
      continue;
    }
    if (ranks + table.rows.size() > limits.ranks) continue;
    ranks += table.rows.size();
    if (table.kind == SampleKind::Ranks)
      add_table(out, table, kRankMetrics, [&](const std::string& row) {
        return Labels{{"run", id}, {"rank", row}};
      });
    if (table.kind == SampleKind::Nodes)
      add_table(out, table, kNodeMetrics, [&](const std::string& row) {
        return Labels{{"run", id}, {"node", row}};
      });
    if (table.kind == SampleKind::Gpus)
      add_table(out, table, kGpuMetrics,
                [&](const std::string& row) { return gpu_labels(id, row); });
  }
}

}  // namespace

std::string prometheus_text(const std::vector<RunMetrics>& runs, const std::string& version,
                            std::chrono::system_clock::time_point now, const MetricLimits& limits) {
  PrometheusText out(limits.label_bytes);
  out.gauge("trainrun_build_info", "1; the label tells the version.", 1, {{"version", version}});
  std::map<std::string, double> states;
  for (const char* state : kStates) states[state] = 0;
  for (const RunMetrics& run : runs) ++states[run.row.state];
  for (const auto& [state, count] : states)
    out.gauge("trainrun_runs", "Runs in the dashboard's folders, by state.", count,
              {{"state", state}});
  std::size_t ranks = 0, operators = 0;
  for (const RunMetrics* run : shown_runs(runs, now, limits)) {
    add_run(out, *run, limits);
    if (run->row.live) add_samples(out, *run, ranks, operators, limits);
  }
  return out.text();
}

}  // namespace train
