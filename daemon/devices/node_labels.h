// The labels that a node knows by itself, and those of --label. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/model/labels.h"

namespace train {

/// Return a GPU's model as people say it: "H100" for "NVIDIA H100 80GB HBM3", "RTX-4090" for
/// "NVIDIA GeForce RTX 4090"; "" if nothing is left of it.
std::string gpu_model(std::string_view name);

/// Return host, arch and, if the node has GPUs of one model, gpu.
Labels own_labels(std::string_view host, std::string_view arch,
                  const std::vector<std::string>& gpu_names);

/// Add labels such as "rack=r1"; they replace those of the same name. InvalidArgument names the one
/// that is none.
Result<Unit> add_labels(Labels& labels, const std::vector<std::string>& texts);

}  // namespace train
