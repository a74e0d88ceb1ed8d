// Tells which of a node's GPUs a process may use. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

/// Return the GPUs that a process may use if its CUDA_VISIBLE_DEVICES is `listed` (null: not set).
/// `uuids` are those of the installed GPUs in the order of the PCI bus, which is nvidia-smi's. The
/// list holds indexes in that order, and UUIDs or beginnings of UUIDs; the result holds indexes. As
/// CUDA does, stop at the first entry that names no GPU: CUDA C++ Programming Guide, "CUDA
/// Environment Variables". Of MIG instances, CUDA shows a process only the first, so only that one
/// is returned, by its name.
std::vector<std::string> visible_gpus(const char* listed, const std::vector<std::string>& uuids);

/// Return those of `gpus` that --gpus lists: indexes, UUIDs and beginnings of UUIDs, with commas.
/// InvalidArgument names an entry that is none of them.
Result<std::vector<std::string>> listed_gpus(const std::string& listed,
                                             const std::vector<std::string>& gpus,
                                             const std::vector<std::string>& uuids);

}  // namespace train
