// The functions of NVIDIA's management library (NVML) that we use. It is loaded at run time, so
// that traind runs on nodes without a driver. Signatures: NVIDIA NVML API reference. Calls may
// block if the driver hangs.
#pragma once

#include <cstdint>
#include <string>

namespace train {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";

/// Results of calls; there are others.
enum NvmlResult : int {
  kNvmlSuccess = 0,
  kNvmlNotSupported = 3,
  kNvmlTimeout = 10,
  kNvmlLost = 15
};

struct NvmlUtilization {
  unsigned gpu = 0, memory = 0;  // percent of the last sample period
};
struct NvmlMemory {
  unsigned long long total = 0, free = 0, used = 0;
};
struct NvmlProcess {  // nvmlProcessInfo_v2_t
  unsigned pid = 0;
  unsigned long long used_memory = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
struct NvmlEvent {  // nvmlEventData_t
  void* device = nullptr;
  unsigned long long type = 0, data = 0;
  unsigned gpu_instance = 0, compute_instance = 0;
};
struct NvmlPci {  // nvmlPciInfo_t
  char bus_id_legacy[16] = {};
  unsigned domain = 0, bus = 0, device = 0, pci_device_id = 0, pci_subsystem_id = 0;
  char bus_id[32] = {};
};
inline constexpr unsigned long long kNvmlXidEvent = 8;  // nvmlEventTypeXidCriticalError

/// A function is null if the library does not have it.
struct Nvml {
  explicit Nvml(void* library);
  /// Return whether it has what is needed to find GPUs.
  bool complete() const { return init && shutdown && count && device && uuid; }

  int (*init)();
  int (*shutdown)();
  int (*count)(unsigned*);
  int (*device)(unsigned index, void**);
  int (*uuid)(void*, char*, unsigned size);
  int (*name)(void*, char*, unsigned size);
  int (*pci)(void*, NvmlPci*);
  int (*utilization)(void*, NvmlUtilization*);
  int (*memory)(void*, NvmlMemory*);
  int (*power)(void*, unsigned* milliwatts);
  int (*power_limit)(void*, unsigned* milliwatts);
  int (*temperature)(void*, int sensor, unsigned* celsius);
  int (*clock)(void*, int type, unsigned* mhz);
  int (*slowdowns)(void*, unsigned long long* reasons);
  int (*ecc_errors)(void*, int type, int counter, unsigned long long*);
  int (*processes)(void*, unsigned* count, NvmlProcess*);
  int (*make_events)(void** set);
  int (*register_events)(void*, unsigned long long types, void* set);
  int (*wait_event)(void* set, NvmlEvent*, unsigned timeout_ms);
};

/// Return the reasons for a lower clock (nvmlClocksThrottleReason…) as text; "" if nothing slows
/// the GPU down.
std::string slowdown_text(unsigned long long reasons);

}  // namespace train
