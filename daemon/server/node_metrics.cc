#include "daemon/server/node_metrics.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "lib/base/text_file.h"
#include "lib/observe/prometheus_text.h"

namespace train {
namespace {

using Type = PrometheusText::Type;

void add_disk(NodeVitals& vitals, const std::string& name, const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return;
  vitals.disks.push_back({name, std::uint64_t{disk.f_blocks} * disk.f_frsize,
                          std::uint64_t{disk.f_bavail} * disk.f_frsize});
}

void add_resource(PrometheusText& text, const Resources& resources) {
  text.sample(resources.cpu, {{"resource", "CPU"}});
  text.sample(resources.gpu, {{"resource", "GPU"}});
  text.sample(static_cast<double>(resources.memory_bytes), {{"resource", "memory"}});
  for (const auto& [name, amount] : resources.custom) text.sample(amount, {{"resource", name}});
}

void add_vitals(PrometheusText& text, const NodeVitals& vitals) {
  if (vitals.memory_total == 0) return;  // not known
  text.family("trainrun_node_cpu_seconds_total", Type::Counter,
              "Processor time since the machine's start, by mode.");
  for (const auto& [mode, seconds] : vitals.cpu_seconds) text.sample(seconds, {{"mode", mode}});
  text.family("trainrun_node_load1", Type::Gauge, "Load average of one minute.")
      .sample(vitals.load_1m);
  text.family("trainrun_node_memory_total_bytes", Type::Gauge, "The machine's memory.")
      .sample(static_cast<double>(vitals.memory_total));
  text.family("trainrun_node_memory_available_bytes", Type::Gauge,
              "Memory that new programs can have without swapping.")
      .sample(static_cast<double>(vitals.memory_available));
  text.family("trainrun_node_disk_total_bytes", Type::Gauge,
              "Size of the file system of a folder of traind.");
  for (const NodeVitals::Disk& disk : vitals.disks)
    text.sample(static_cast<double>(disk.total), {{"folder", disk.folder}});
  text.family("trainrun_node_disk_free_bytes", Type::Gauge,
              "What traind's user can still write there.");
  for (const NodeVitals::Disk& disk : vitals.disks)
    text.sample(static_cast<double>(disk.free), {{"folder", disk.folder}});
}

}  // namespace

std::vector<std::pair<std::string, double>> parse_cpu_seconds(const std::string& stat,
                                                              long ticks_a_second) {
  constexpr std::array kModes{"user",   "nice", "system",  "idle",
                              "iowait", "irq",  "softirq", "steal"};
  std::istringstream line(stat.substr(0, stat.find('\n')));
  std::string word;
  line >> word;
  std::vector<std::pair<std::string, double>> seconds;
  if (word != "cpu") return seconds;
  std::uint64_t ticks = 0;
  for (std::size_t i = 0; i < kModes.size() && line >> ticks; ++i)
    seconds.emplace_back(kModes[i],
                         static_cast<double>(ticks) / static_cast<double>(ticks_a_second));
  return seconds;
}

std::uint64_t parse_memory(const std::string& meminfo, const std::string& name) {
  std::istringstream lines(meminfo);
  std::string label;
  std::uint64_t kib = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    if (words >> label >> kib && label == name + ":") return kib * 1024;
  }
  return 0;
}

NodeVitals read_node_vitals(const std::string& spool_dir, const std::string& data_dir) {
  NodeVitals vitals;
  vitals.cpu_seconds = parse_cpu_seconds(read_text("/proc/stat"), ::sysconf(_SC_CLK_TCK));
  std::istringstream(read_text("/proc/loadavg")) >> vitals.load_1m;
  const std::string meminfo = read_text("/proc/meminfo");
  vitals.memory_total = parse_memory(meminfo, "MemTotal");
  vitals.memory_available = parse_memory(meminfo, "MemAvailable");
  add_disk(vitals, "spool", spool_dir);
  add_disk(vitals, "data", data_dir);
  return vitals;
}

std::string node_metrics_text(const NodeCounts& counts, const NodeVitals& vitals,
                              const std::string& node, const std::string& build) {
  PrometheusText text;
  text.family("trainrun_build_info", Type::Gauge, "Always 1; the labels say which traind this is.")
      .sample(1, {{"build", build}, {"node", node}});
  text.family("trainrun_node_resource_amount", Type::Gauge,
              "What traind offers: cores, GPUs, bytes of memory, and your own resources.");
  add_resource(text, counts.total);
  text.family("trainrun_node_resource_claimed", Type::Gauge,
              "How much of it workers have claimed.");
  add_resource(text, counts.claimed);
  text.family("trainrun_node_runs", Type::Gauge, "Runs that use the node, or may.")
      .sample(counts.runs);
  text.family("trainrun_node_supervisors", Type::Gauge, "Supervisors, by whether they stand by.");
  text.sample(counts.supervisors - counts.standby, {{"standby", "false"}});
  text.sample(counts.standby, {{"standby", "true"}});
  text.family("trainrun_node_draining", Type::Gauge, "1 while the node takes no new workers.")
      .sample(counts.draining ? 1 : 0);
  add_vitals(text, vitals);
  return std::move(text).take();
}

}  // namespace train
