// The maps that this process has registered (train::register_map, register_flat_map), by name.
#pragma once

#include <train/dataset.h>

#include <string>
#include <variant>
#include <vector>

namespace train::sdk {

using RegisteredMap = std::variant<std::monostate, MapFunction, FlatMapFunction>;

/// Return the map of that name; monostate if there is none.
RegisteredMap registered_map(const std::string& name);
std::vector<std::string> registered_maps();
/// Forget all, as at the start of the process. For tests.
void forget_maps();

}  // namespace train::sdk
