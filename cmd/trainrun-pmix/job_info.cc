#include "cmd/trainrun-pmix/job_info.h"

#include <fmt/format.h>

#include <numeric>

namespace train {
namespace {

std::uint32_t unsigned_of(std::int32_t number) { return static_cast<std::uint32_t>(number); }

std::int32_t node_count(const ServePmix& order) {
  return static_cast<std::int32_t>(order.node_sizes.size());
}

/// "0,1,2": the ranks of a node.
std::string ranks_of(const ServePmix& order, std::int32_t node) {
  std::string ranks;
  const std::int32_t first = first_rank(order, node);
  for (std::int32_t i = 0; i < size_of(order, node); ++i)
    ranks += fmt::format("{}{}", i == 0 ? "" : ",", first + i);
  return ranks;
}

/// Add which nodes there are, and which ranks each has.
Result<Unit> add_maps(const ServePmix& order, const PmixLibrary& library, InfoList& info) {
  std::string names, ranks;
  for (std::int32_t node = 0; node < node_count(order); ++node) {
    names += (node == 0 ? "" : ",") + node_name(node);
    ranks += (node == 0 ? "" : ";") + ranks_of(order, node);
  }
  char* node_map = nullptr;
  TRY_VOID(library.check(library.generate_regex(names.c_str(), &node_map), "PMIx_generate_regex"));
  info.add_regex(PMIX_NODE_MAP, node_map, library.info_load);
  char* process_map = nullptr;
  TRY_VOID(library.check(library.generate_ppn(ranks.c_str(), &process_map), "PMIx_generate_ppn"));
  info.add_regex(PMIX_PROC_MAP, process_map, library.info_load);
  return Unit{};
}

void add_process(const ServePmix& order, std::int32_t node, std::int32_t local, InfoList& info) {
  const std::int32_t rank = first_rank(order, node) + local;
  InfoList& process = info.add_list(PMIX_PROC_DATA);
  process.add_rank(PMIX_RANK, rank);  // first: it says whose the others are
  process.add_rank(PMIX_GLOBAL_RANK, rank);
  process.add_rank(PMIX_APP_RANK, rank);
  process.add(PMIX_APPNUM, 0u);
  process.add_local_rank(PMIX_LOCAL_RANK, local);
  process.add_local_rank(PMIX_NODE_RANK, local);
  process.add(PMIX_NODEID, unsigned_of(node));
  process.add(PMIX_HOSTNAME, node_name(node));
  if (node == order.node_rank) process.add(PMIX_PROCDIR, process_folder(order, rank));
}

}  // namespace

std::int32_t first_rank(const ServePmix& order, std::int32_t node_rank) {
  return std::accumulate(order.node_sizes.begin(), order.node_sizes.begin() + node_rank, 0);
}

std::int32_t size_of(const ServePmix& order, std::int32_t node_rank) {
  return order.node_sizes[static_cast<std::size_t>(node_rank)];
}

std::int32_t world_size(const ServePmix& order) {
  return std::accumulate(order.node_sizes.begin(), order.node_sizes.end(), 0);
}

std::string process_folder(const ServePmix& order, std::int32_t rank) {
  return fmt::format("{}/rank-{}", order.dir, rank);
}

std::string node_name(std::int32_t node_rank) { return fmt::format("trainrun{}", node_rank); }

Result<Unit> add_job_info(const ServePmix& order, const PmixLibrary& library, InfoList& info) {
  const std::uint32_t world = unsigned_of(world_size(order));
  const std::uint32_t own = unsigned_of(size_of(order, order.node_rank));
  TRY_VOID(add_maps(order, library, info));
  info.add(PMIX_JOBID, order.name);
  info.add(PMIX_UNIV_SIZE, world);
  info.add(PMIX_MAX_PROCS, world);
  info.add(PMIX_JOB_SIZE, world);
  info.add(PMIX_APP_SIZE, world);
  info.add(PMIX_JOB_NUM_APPS, 1u);
  info.add_rank(PMIX_APPLDR, 0);
  info.add(PMIX_APPNUM, 0u);
  info.add(PMIX_NUM_NODES, unsigned_of(node_count(order)));
  info.add(PMIX_HOSTNAME, node_name(order.node_rank));
  info.add(PMIX_NODEID, unsigned_of(order.node_rank));
  info.add(PMIX_NODE_SIZE, own);
  info.add(PMIX_LOCAL_SIZE, own);
  info.add(PMIX_LOCAL_PEERS, ranks_of(order, order.node_rank));
  info.add_rank(PMIX_LOCALLDR, first_rank(order, order.node_rank));
  info.add(PMIX_TMPDIR, order.dir);  // MPI's session, in place of folders in /tmp
  info.add(PMIX_NSDIR, order.dir);
  info.add(PMIX_TDIR_RMCLEAN, true);
  for (std::int32_t node = 0; node < node_count(order); ++node)
    for (std::int32_t local = 0; local < size_of(order, node); ++local)
      add_process(order, node, local, info);
  return Unit{};
}

}  // namespace train
