// The arithmetic of a node's resources: what workers claim, what is left, and what is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/model/resources.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// Return what so many workers claim together. Workers that claim a part of a GPU have it from one
/// GPU, and GPUs are claimed whole.
Resources claim_of(const Resources& per_worker, std::int32_t workers);
/// Return what all workers of an attempt claim on this node, ingest workers included.
Resources claim_of(const PrepareAttempt& message);
/// Add a claim, but for what the user has named.
void add(Resources& sum, const Resources& claim);
/// Take a claim from what is free. What the node does not have is left out: every offer to every
/// run names what is free, and a claim may name anything.
void take(Resources& free, const Resources& claim);
/// Return what `wanted` has more than `has`, of each resource.
Resources beyond(const Resources& wanted, const Resources& has);
/// Return the larger, and the smaller, amount of each resource that the first one names.
Resources larger(const Resources& a, const Resources& b);
Resources smaller(const Resources& a, const Resources& b);
/// Return which of the attempt's GPUs a worker has, or has first, by its local rank.
std::size_t first_gpu_of(const Resources& per_worker, std::int32_t local_rank);
/// Return how many whole GPUs hold this claim. A sum of fractions may be slightly too large.
std::size_t whole_gpus(const Resources& claim);
/// Return what `wanted` lacks in words, or "" if it fits.
std::string lack_of(const Resources& wanted, const Resources& free);

}  // namespace train
