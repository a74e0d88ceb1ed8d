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

void add_disk(NodeVitals& vitals, const std::string& name, const std::string& folder) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return;
  vitals.disks.push_back({name, std::uint64_t{disk.f_blocks} * disk.f_frsize,
                          std::uint64_t{disk.f_bavail} * disk.f_frsize});
}

void add_resources(PrometheusText& out, const std::string& name, const std::string& help,
                   const Resources& resources) {
  out.gauge(name, help, resources.cpu, {{"resource", "CPU"}});
  out.gauge(name, help, resources.gpu, {{"resource", "GPU"}});
  out.gauge(name, help, static_cast<double>(resources.memory_bytes), {{"resource", "memory"}});
  for (const auto& [resource, amount] : resources.custom)
    out.gauge(name, help, amount, {{"resource", resource}});
}

void add_vitals(PrometheusText& out, const NodeVitals& vitals) {
  if (vitals.memory_total == 0) return;  // not known
  for (const auto& [mode, seconds] : vitals.cpu_seconds)
    out.counter("trainrun_node_cpu_seconds_total",
                "Processor time since the machine's start, by mode.", seconds, {{"mode", mode}});
  out.gauge("trainrun_node_load1", "Load average of one minute.", vitals.load_1m);
  out.gauge("trainrun_node_memory_total_bytes", "The machine's memory.",
            static_cast<double>(vitals.memory_total));
  out.gauge("trainrun_node_memory_available_bytes",
            "Memory that new programs can have without swapping.",
            static_cast<double>(vitals.memory_available));
  for (const NodeVitals::Disk& disk : vitals.disks) {
    out.gauge("trainrun_node_disk_total_bytes", "Size of the file system of a folder of traind.",
              static_cast<double>(disk.total), {{"folder", disk.folder}});
    out.gauge("trainrun_node_disk_free_bytes", "What traind's user can still write there.",
              static_cast<double>(disk.free), {{"folder", disk.folder}});
  }
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
  PrometheusText out;
  out.gauge("trainrun_build_info", "Always 1; the labels say which traind this is.", 1,
            {{"build", build}, {"node", node}});
  add_resources(out, "trainrun_node_resource_amount",
                "What traind offers: cores, GPUs, bytes of memory, and your own resources.",
                counts.total);
  add_resources(out, "trainrun_node_resource_claimed", "How much of it workers have claimed.",
                counts.claimed);
  out.gauge("trainrun_node_runs", "Runs that use the node, or may.", counts.runs);
  out.gauge("trainrun_node_runs_waiting", "Of them, those that wait for room.", counts.waiting);
  const std::string supervisors = "Supervisors, by whether they stand by.";
  out.gauge("trainrun_node_supervisors", supervisors, counts.supervisors - counts.standby,
            {{"standby", "false"}});
  out.gauge("trainrun_node_supervisors", supervisors, counts.standby, {{"standby", "true"}});
  out.gauge("trainrun_node_draining", "1 while the node takes no new workers.",
            counts.draining ? 1 : 0);
  add_vitals(out, vitals);
  return out.text();
}

}  // namespace train
