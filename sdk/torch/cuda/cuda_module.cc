// libtrainrun_cuda.so: the parts of CUDA and NCCL that sdk/torch needs, behind the table in
// cuda_loader.h.
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "sdk/torch/cuda_loader.h"

namespace train::sdk {
namespace {

int device_count() { return static_cast<int>(c10::cuda::device_count()); }

/// This rank's device. Without it, threads that have not set one would use the first GPU.
std::atomic<c10::DeviceIndex> own_device{0};

void set_device(int index) {
  own_device = static_cast<c10::DeviceIndex>(index);
  c10::cuda::set_device(own_device);
}

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int world_size,
                                                    std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world_size, options);
}

bool pin(void* address, std::size_t bytes) {
  const c10::cuda::CUDAGuard guard(own_device.load());
  if (cudaHostRegister(address, bytes, cudaHostRegisterPortable) == cudaSuccess) return true;
  (void)cudaGetLastError();  // the next call of CUDA would report it
  return false;
}

void unpin(void* address) {
  const c10::cuda::CUDAGuard guard(own_device.load());
  if (cudaHostUnregister(address) != cudaSuccess) (void)cudaGetLastError();
}

constexpr CudaModule kModule{&device_count, &set_device, &make_nccl_backend, &pin, &unpin};

}  // namespace
}  // namespace train::sdk

extern "C" __attribute__((visibility("default"))) const train::sdk::CudaModule*
trainrun_cuda_module() {
  return &train::sdk::kModule;
}
