// The maps that this process has registered (train::register_map), by name.
#pragma once

#include <train/dataset.h>

#include <string>
#include <vector>

namespace train::sdk {

/// Return the map of that name; an empty function if there is none.
MapFunction registered_map(const std::string& name);
std::vector<std::string> registered_maps();
/// Forget all, as at the start of the process. For tests.
void forget_maps();

}  // namespace train::sdk
