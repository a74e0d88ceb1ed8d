// Loads the GPU part of the SDK, a module, only where this process sees a GPU, so that one
// executable serves both CPU and GPU, and a CPU run never loads libtorch_cuda. cuda/cuda_module.cc
// is the other side of this table.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace train::sdk {

struct CudaModule {
  int (*device_count)() = nullptr;
  void (*set_device)(int index) = nullptr;
  c10::intrusive_ptr<c10d::Backend> (*make_nccl_backend)(
      const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
      std::chrono::milliseconds timeout) = nullptr;
};

constexpr const char* kCudaModuleEntry = "trainrun_cuda_module";  // extern "C" const CudaModule* ()

/// Return the module, which the first call loads; null when no GPU is visible. Throws
/// Failure("unavailable") when one is visible, but the module or libtorch_cuda cannot be loaded.
/// Any thread.
const CudaModule* cuda_module();

/// Return whether there is a GPU to look for, judging by the environment and the driver's device
/// file.
bool gpu_visible(const char* cuda_visible_devices, bool driver_present);

}  // namespace train::sdk
