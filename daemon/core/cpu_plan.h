// Decides which CPUs each worker of an attempt gets on a node. Pure and total: whatever the node is
// like, each worker has some CPU, or is not bound.
#pragma once

#include <string>
#include <vector>

#include "lib/base/cpu_list.h"
#include "lib/model/cpu_binding.h"
#include "lib/model/cpu_topology.h"
#include "lib/model/worker_binding.h"

namespace train {

struct BindOrder {
  CpuBinding how = CpuBinding::None;
  /// For each worker, by local rank: the NUMA node of its GPU; −1: no GPU, or it is not known.
  std::vector<int> gpu_nodes = {};
  CpuSet allowed = {};  // CPUs that we may use ourselves
  CpuSet taken = {};    // CPUs that workers of other runs have for themselves
};

struct BindPlan {
  std::vector<WorkerBinding> workers = {};  // by local rank; empty: none is bound
  std::string note = {};                    // for the user: what could not be done as asked
};

/// Bind workers as torchrun's --numa-binding does, but only to CPUs that we may use:
/// - node: to the NUMA node of the worker's GPU.
/// - socket: to all NUMA nodes of that socket.
/// - exclusive: to cores of that NUMA node that no other worker of the run has, nor any of another
///   run that is bound so: its cores are dealt evenly.
/// - core-complex: to a last-level cache of that NUMA node, each worker to another one as long as
///   there are some, those with the most cores first.
/// Workers without a GPU are dealt to the NUMA nodes in blocks: the first ones get the first node.
/// The hardware threads of a core stay together. Where exclusive lacks cores, workers share those
/// that there are, and the note says so.
BindPlan plan_binding(const CpuTopology& topology, const BindOrder& order);

}  // namespace train
