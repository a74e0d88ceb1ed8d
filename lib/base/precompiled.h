// The build precompiles this header for all libraries (train_library of
// packaging/cmake/train_targets.cmake). It includes what most files include anyway.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/result.h"
