// Makes the c10d group of all ranks from what the supervisor told this worker. torch.h's
// process_group() and prepare_model call this; it owns the group and its store until the run
// ends.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace train::sdk {

/// Make the Gloo backend of one rank. `address` is the numeric local address to bind, used unless
/// GLOO_SOCKET_IFNAME names interfaces (separated by commas). Blocks until all ranks have joined.
/// It is in a file of its own because Gloo's headers are older than the library inside
/// libtorch_cpu: only types that are the same in both pass through it.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    const std::string& address,
                                                    std::chrono::milliseconds timeout);

}  // namespace train::sdk
