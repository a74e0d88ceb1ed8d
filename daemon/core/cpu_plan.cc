#include "daemon/core/cpu_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>

namespace train {
namespace {

using Places = std::vector<CpuPlace>;

CpuSet cpus_of(const Places& places) {
  CpuSet cpus;
  for (const CpuPlace& place : places) cpus.insert(place.cpu);
  return cpus;
}

template <class Wanted>
Places only(const Places& places, Wanted wanted) {
  Places some;
  std::copy_if(places.begin(), places.end(), std::back_inserter(some), wanted);
  return some;
}

/// Group CPUs by a number of theirs: by core, by cache, ….
std::map<int, Places> groups(const Places& places, int CpuPlace::*number) {
  std::map<int, Places> by_number;
  for (const CpuPlace& place : places) by_number[place.*number].push_back(place);
  return by_number;
}

/// Return the NUMA node of each worker.
std::vector<int> nodes_of_workers(const std::map<int, Places>& nodes,
                                  const std::vector<int>& gpu_nodes) {
  std::vector<int> numbers;
  for (const auto& [number, places] : nodes) numbers.push_back(number);
  std::vector<int> chosen;
  for (std::size_t i = 0; i < gpu_nodes.size(); ++i) {
    const bool known = nodes.contains(gpu_nodes[i]);  // and has CPUs that we may use
    chosen.push_back(known ? gpu_nodes[i] : numbers[i * numbers.size() / gpu_nodes.size()]);
  }
  return chosen;
}

WorkerBinding binding(const Places& places, int node, bool exclusive = false) {
  return {.cpus = cpu_list_text(cpus_of(places)), .memory_node = node, .exclusive = exclusive};
}

/// Deal the cores of one NUMA node among its workers, whose numbers are `workers`.
void deal_cores(const Places& there, const CpuSet& taken, const std::vector<std::size_t>& workers,
                int node, BindPlan& plan) {
  const auto free = groups(
      only(there, [&](const CpuPlace& one) { return !taken.contains(one.cpu); }), &CpuPlace::core);
  if (free.size() < workers.size()) {
    // Those of other runs, too: a worker without any CPU could not run.
    const auto all = groups(there, &CpuPlace::core);
    const auto& shared = free.empty() ? all : free;
    for (std::size_t i = 0; i < workers.size(); ++i) {
      auto core = shared.begin();
      std::advance(core, static_cast<std::ptrdiff_t>(i % shared.size()));
      plan.workers[workers[i]] = binding(core->second, node);
    }
    plan.note += fmt::format("{}NUMA node {} has {} {} for {} {}, which share cores",
                             plan.note.empty() ? "bind: exclusive: " : "; ", node, free.size(),
                             free.size() == 1 ? "free core" : "free cores", workers.size(),
                             workers.size() == 1 ? "worker" : "workers");
    return;
  }
  auto core = free.begin();
  for (std::size_t i = 0; i < workers.size(); ++i) {
    // The first workers get one more, if the cores cannot be dealt evenly.
    std::size_t count = free.size() / workers.size() + (i < free.size() % workers.size() ? 1 : 0);
    Places mine;
    for (; count > 0; --count, ++core)
      mine.insert(mine.end(), core->second.begin(), core->second.end());
    plan.workers[workers[i]] = binding(mine, node, true);
  }
}

/// Deal the caches of one NUMA node among its workers in turn, those with the most cores first.
void deal_complexes(const Places& there, const std::vector<std::size_t>& workers, int node,
                    BindPlan& plan) {
  std::vector<Places> complexes;
  for (auto& [number, places] : groups(there, &CpuPlace::complex)) complexes.push_back(places);
  std::stable_sort(complexes.begin(), complexes.end(), [](const Places& a, const Places& b) {
    return groups(a, &CpuPlace::core).size() > groups(b, &CpuPlace::core).size();
  });
  for (std::size_t i = 0; i < workers.size(); ++i)
    plan.workers[workers[i]] = binding(complexes[i % complexes.size()], node);
}

}  // namespace

BindPlan plan_binding(const CpuTopology& topology, const BindOrder& order) {
  BindPlan plan;
  if (order.how == CpuBinding::None || order.gpu_nodes.empty()) return plan;
  const Places usable =
      only(topology.cpus, [&](const CpuPlace& place) { return order.allowed.contains(place.cpu); });
  if (usable.empty()) {
    plan.note = "workers are not bound to CPUs: the node does not say how its CPUs lie";
    return plan;
  }
  const auto nodes = groups(usable, &CpuPlace::node);
  const std::vector<int> node_of = nodes_of_workers(nodes, order.gpu_nodes);
  plan.workers.resize(node_of.size());
  std::map<int, std::vector<std::size_t>> workers_of;
  for (std::size_t i = 0; i < node_of.size(); ++i) workers_of[node_of[i]].push_back(i);
  for (const auto& [node, workers] : workers_of) {
    const Places& there = nodes.at(node);
    switch (order.how) {
      case CpuBinding::None:
        break;
      case CpuBinding::Node:
        for (const std::size_t i : workers) plan.workers[i] = binding(there, node);
        break;
      case CpuBinding::Socket: {
        const int socket = there.front().socket;
        const Places all =
            only(usable, [&](const CpuPlace& place) { return place.socket == socket; });
        for (const std::size_t i : workers) plan.workers[i] = binding(all, node);
        break;
      }
      case CpuBinding::Exclusive:
        deal_cores(there, order.taken, workers, node, plan);
        break;
      case CpuBinding::CoreComplex:
        deal_complexes(there, workers, node, plan);
        break;
    }
  }
  return plan;
}

}  // namespace train
