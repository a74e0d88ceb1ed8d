// Makes LibTorch compute the same bits each time. process_group.cc and reproducible.cc call this.
#pragma once

#include <optional>

#include "lib/base/error.h"

namespace train::sdk {

/// Return whether the spec has backend_config.deterministic.
bool deterministic_by_spec();

/// Let operators that have a deterministic algorithm use it, and the others throw.
void use_deterministic_algorithms();

/// Return what keeps cuBLAS from being deterministic; none if nothing does. `config`: the value of
/// CUBLAS_WORKSPACE_CONFIG, null if it is not set. LibTorch knows two values
/// (aten/src/ATen/Context.cpp, checkCuBLASConfigDeterministic).
std::optional<Error> undetermined_cublas(bool on_gpu, const char* config);

}  // namespace train::sdk
