// What PMIx tells each process of the MPI program about the program and its places.
#pragma once

#include <string>

#include "cmd/trainrun-pmix/info_list.h"
#include "cmd/trainrun-pmix/pmix_library.h"
#include "lib/wire/pmix_messages.h"

namespace train {

/// Return the rank of the first process of a node.
std::int32_t first_rank(const ServePmix& order, std::int32_t node_rank);
/// Return how many processes a node has.
std::int32_t size_of(const ServePmix& order, std::int32_t node_rank);
/// Return how many processes all nodes have.
std::int32_t world_size(const ServePmix& order);
/// Return PMIx's name of a node. Not the host's: MPI learns that itself, and two of our nodes may
/// share a host.
std::string node_name(std::int32_t node_rank);

/// Return the folder of a process of this node, for MPI's files; it has to be made.
std::string process_folder(const ServePmix& order, std::int32_t rank);

/// Fill `info` for PMIx_server_register_nspace().
Result<Unit> add_job_info(const ServePmix& order, const PmixLibrary& library, InfoList& info);

}  // namespace train
