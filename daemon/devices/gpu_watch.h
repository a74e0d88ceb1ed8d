// Watches the GPUs of this node through NVML, on a thread of its own, because a call to a driver
// that hangs never returns.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/devices/nvml.h"
#include "lib/base/time.h"
#include "lib/model/node_sample.h"

namespace train {

/// A GPU that has not answered a call for this long is "not answering".
inline constexpr Duration kGpuAnswerWithin = seconds(5);
inline constexpr Duration kGpuSampleEvery = seconds(2);

class GpuWatch {
 public:
  /// Begin to watch these GPUs: indexes as in NodeInventory::gpus; others (MIG instances) are not
  /// watched. Does nothing without GPUs.
  explicit GpuWatch(const std::vector<std::string>& gpus, std::string library = kNvmlLibrary,
                    Duration every = kGpuSampleEvery);
  /// Tell the thread to end; does not wait for it.
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  /// Return whether each GPU has been asked once, or none can be.
  bool asked_all() const;
  /// Return what is known of each GPU. Never blocks. While a call hangs, the GPU that it asks is
  /// "not answering", and the state of the others is "unknown". A GPU that the driver has lost is
  /// "lost". Empty until the first answers, and if NVML cannot be loaded.
  std::vector<GpuSample> newest(TimePoint now) const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // also of the thread, which may outlive us; null: without GPUs
};

/// Return "pid 4242 (python3) of alice" for the processes of the list that belong to no supervisor
/// (`traind supervise`) of this machine; "" if there is none, or if we are in a PID namespace,
/// where the numbers mean other processes. `proc` is "/proc" but in tests.
std::string foreign_processes(const std::vector<unsigned>& pids, const std::string& proc = "/proc");

}  // namespace train
