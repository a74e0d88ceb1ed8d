// Makes tables of what nodes tell about themselves and their GPUs: rates of the counters that grow.
// Pure: samples and times in, tables out. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "lib/base/time.h"
#include "lib/model/node_sample.h"
#include "lib/samples/sample_table.h"

namespace train {

/// Of a node without a newer sample nothing is known.
inline constexpr Duration kNodeSampleAgeMax = seconds(10);
inline constexpr std::size_t kNodeGpusMax = 64;

/// What one node says.
struct NodeTold {
  std::int64_t taken_us = 0;  // when, by a clock of the node
  NodeSample node = {};
  std::vector<GpuSample> gpus = {};
  std::vector<std::string> granted = {};  // GPUs of the run's workers there, by local rank
};

/// Some of the GPUs that a node has granted to the run: all of them by default.
struct GrantedGpus {
  std::size_t first = 0, count = SIZE_MAX;
};

class NodeCollector {
 public:
  /// Take at most kNodeGpusMax GPUs, with numbers and texts brought into their ranges. Return what
  /// was taken.
  const NodeTold& sampled(const std::string& node, NodeTold told, TimePoint now);
  /// Return the ranks that use a GPU of their node, as "0-3". `ranks`: of the run on the node,
  /// ascending. "" if it is not granted to the run.
  /// `of`: which of the granted GPUs these ranks share out among them.
  std::string ranks_of_gpu(const std::string& node, const std::string& gpu,
                           std::span<const std::int32_t> ranks, GrantedGpus of = {}) const;

  /// Returns the run's ranks on a node, ascending.
  using RanksOf = std::function<std::vector<std::int32_t>(const std::string& node)>;
  /// Return a table of nodes and one of GPUs, as far as there are any. Both cover `span_ms`.
  std::vector<SampleTable> newest(TimePoint now, std::int64_t wall_ms, std::int64_t span_ms,
                                  std::uint32_t attempt, const RanksOf& ranks_of) const;

  struct Rates;

 private:
  struct Known;
  std::vector<std::pair<const std::string*, const Known*>> fresh(TimePoint now) const;
  std::map<std::string, Known> nodes_;
};

/// Rates of a node's counters; NaN: not known.
struct NodeCollector::Rates {
  double cpu, read_per_s, written_per_s, received_per_s, sent_per_s;
  double cpu_pressure, memory_pressure, io_pressure;
};

struct NodeCollector::Known {
  NodeTold told;
  Rates rates;
  TimePoint sampled_at{};
};

}  // namespace train
