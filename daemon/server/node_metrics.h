// What a node tells Prometheus (traind --metrics-listen): what traind has given away, and how the
// machine is. docs/prometheus.md lists the metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/core/node_agent.h"

namespace train {

/// What the machine says of itself.
struct NodeVitals {
  std::vector<std::pair<std::string, double>> cpu_seconds;  // mode → since the machine's start
  double load_1m = 0;
  std::uint64_t memory_total = 0, memory_available = 0;  // bytes
  struct Disk {
    std::string folder;                 // "spool", "data"
    std::uint64_t total = 0, free = 0;  // bytes; free: for this user
  };
  std::vector<Disk> disks;
};

/// Read /proc and the file systems of the folders. What cannot be read is missing. Blocks for as
/// long as the file systems do.
NodeVitals read_node_vitals(const std::string& spool_dir, const std::string& data_dir);

/// Parse /proc/stat's first line. Pure.
std::vector<std::pair<std::string, double>> parse_cpu_seconds(const std::string& stat,
                                                              long ticks_a_second);
/// Return a value of /proc/meminfo in bytes, 0 if it is missing. Pure.
std::uint64_t parse_memory(const std::string& meminfo, const std::string& name);

/// Return the page that Prometheus reads. Pure.
std::string node_metrics_text(const NodeCounts& counts, const NodeVitals& vitals,
                              const std::string& node, const std::string& build);

}  // namespace train
