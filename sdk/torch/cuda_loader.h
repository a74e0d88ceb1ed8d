// Loads the GPU part of the SDK, a module, only where this process sees a GPU, so that one
// executable serves both CPU and GPU, and a CPU run never loads libtorch_cuda. cuda/cuda_module.cc
// is the other side of this table.
#pragma once

#include <torch/torch.h>

#include <chrono>
#include <cstddef>
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
  /// Lock host memory in place, so that devices copy to it at full speed and without waiting.
  /// Return whether that was possible.
  bool (*pin)(void* address, std::size_t bytes) = nullptr;
  void (*unpin)(void* address) = nullptr;
};

constexpr const char* kCudaModuleEntry = "trainrun_cuda_module";  // extern "C" const CudaModule* ()

/// Return the module; null when no GPU is visible. Throws Failure("unavailable") when one is
/// visible, but the module or libtorch_cuda could not be loaded. Any thread.
///
/// A program that links this is loaded together with the module. LibTorch decides once, at the
/// first operation that asks for it (torch::manual_seed is one), whether it has CUDA, and remembers
/// the answer: ATen/detail/CUDAHooksInterface.cpp.
const CudaModule* cuda_module();

/// Return whether there is a GPU to look for, judging by the environment and the driver's device
/// file.
bool gpu_visible(const char* cuda_visible_devices, bool driver_present);

}  // namespace train::sdk
