// Lets sdk/torch turn batches into tensors on the thread that reads them.
#pragma once

#include <train/dataset.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace train::sdk {

struct Converted {
  std::shared_ptr<void> value = {};
  std::int64_t bytes = 0;  // of its memory
};
/// Throws a Failure to end the pass with it.
using ConvertBatch = std::function<Converted(const Batch&)>;

/// Return the next pass, as iter_batches() does, whose batches have no `data` and are `converted`.
/// Without `convert`, they stay as they are.
BatchRange iter_converted(DatasetShard& dataset, const BatchOptions& options, ConvertBatch convert);

}  // namespace train::sdk
