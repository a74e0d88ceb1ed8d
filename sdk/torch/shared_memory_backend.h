// Lets the ranks of one node add up tensors of the CPU through memory that they share, instead of
// Gloo's connections over loopback; everything else stays with Gloo.
#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace train::sdk {

/// Return a backend of all ranks, which are on one node, over `gloo`; `gloo` itself if they cannot
/// share memory. All ranks call it, with a store of their own for it; all get the same kind.
///
/// It sums dense tensors of float32, float64, bfloat16, float16, int32 and int64: an element's
/// values in the order of the ranks, so that all ranks have the same bits, and two ranks those that
/// Gloo gives them. Calls are done one after another on a thread of its own.
c10::intrusive_ptr<c10d::Backend> share_memory(c10::intrusive_ptr<c10d::Backend> gloo,
                                               const c10::intrusive_ptr<c10d::Store>& store,
                                               std::chrono::milliseconds timeout);

}  // namespace train::sdk
