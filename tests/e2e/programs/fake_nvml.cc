// A library with the names of NVIDIA's NVML, for nodes without GPUs: libnvidia-ml.so.1 in
// build/tests/fake_nvml. It reads the file that TRAINRUN_FAKE_NVML names at each call:
//
//     gpus 2              how many there are
//     0.use 37            percent
//     0.use unsupported   NVML_ERROR_NOT_SUPPORTED
//     0.lost 1            NVML_ERROR_GPU_IS_LOST from each call
//     0.hang 1            calls do not return before this line goes
//     0.process 4242      a process that uses the GPU
//     0.xid 79            an event, once; another number: another event
#include <time.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kSuccess = 0, kUnknown = 2, kNotSupported = 3, kTimeout = 10, kLost = 15;

struct Device {
  std::atomic<bool> found{false};  // by some thread
};
Device devices[8];

unsigned index_of(const void* device) {
  return static_cast<unsigned>(static_cast<const Device*>(device) - devices);
}

std::map<std::string, std::string> settings() {
  std::map<std::string, std::string> all;
  const char* path = std::getenv("TRAINRUN_FAKE_NVML");
  std::ifstream file(path == nullptr ? "" : path);
  for (std::string key, value; file >> key >> value;) all[key] = value;
  return all;
}

std::string setting(void* device, const std::string& key) {
  return settings()[std::to_string(index_of(device)) + "." + key];
}

void pause_ms(long ms) {
  const timespec time{.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000};
  ::nanosleep(&time, nullptr);
}

/// Return the result of a call that asks a device.
int asked(void* device) {
  while (!setting(device, "hang").empty()) pause_ms(20);
  return setting(device, "lost").empty() ? kSuccess : kLost;
}

template <class Number>
int number(void* device, const std::string& key, Number* value) {
  if (const int result = asked(device); result != kSuccess) return result;
  const std::string text = setting(device, key);
  if (text.empty() || text == "unsupported") return kNotSupported;
  *value = static_cast<Number>(std::strtoull(text.c_str(), nullptr, 10));
  return kSuccess;
}

int text(void* device, const std::string& value, char* to, unsigned size) {
  if (const int result = asked(device); result != kSuccess) return result;
  std::strncpy(to, value.c_str(), size);
  return kSuccess;
}

/// Each set of events gets each event, from its creation on.
struct EventSet {
  std::string told[8];  // the setting `xid` of each device
};
struct Event {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
struct Process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};

}  // namespace

extern "C" {

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(std::strtoul(settings()["gpus"].c_str(), nullptr, 10));
  return kSuccess;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= 8) return kUnknown;
  devices[index].found = true;
  *device = &devices[index];
  return setting(*device, "lost").empty() ? kSuccess : kLost;
}
int nvmlDeviceGetUUID(void* device, char* to, unsigned size) {
  return text(device, "GPU-fake-" + std::to_string(index_of(device)), to, size);
}
int nvmlDeviceGetName(void* device, char* to, unsigned size) {
  return text(device, "Fake GPU", to, size);
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned use[2]) {
  use[1] = 0;
  return number(device, "use", &use[0]);
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long memory[3]) {  // total, free, used
  const int result = number(device, "memory", &memory[0]);
  if (result != kSuccess) return result;
  return number(device, "memory_used", &memory[2]);
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* value) {
  return number(device, "power_mw", value);
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* value) {
  return number(device, "power_limit_mw", value);
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* value) {
  return number(device, "temperature", value);
}
int nvmlDeviceGetClockInfo(void* device, int type, unsigned* value) {
  return number(device, type == 2 ? "memory_clock" : "clock", value);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* value) {
  return number(device, "slowdowns", value);
}
int nvmlDeviceGetTotalEccErrors(void* device, int type, int, unsigned long long* value) {
  return number(device, type == 1 ? "ecc_uncorrected" : "ecc_corrected", value);
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* device, unsigned* count, Process* processes) {
  *count = 0;
  const int result = number(device, "process", &processes[0].pid);
  if (result == kSuccess) *count = 1;
  return result == kNotSupported ? kSuccess : result;
}
int nvmlEventSetCreate(void** set) {
  // Never freed: a thread may wait for it.
  static std::mutex mutex;
  static auto& sets = *new std::vector<std::unique_ptr<EventSet>>;
  const std::lock_guard lock(mutex);
  EventSet* const made = sets.emplace_back(std::make_unique<EventSet>()).get();
  for (const Device& device : devices)
    if (device.found)
      made->told[index_of(&device)] = settings()[std::to_string(index_of(&device)) + ".xid"];
  *set = made;
  return kSuccess;
}
int nvmlDeviceRegisterEvents(void* device, unsigned long long, void*) { return asked(device); }
int nvmlEventSetWait_v2(void* set, Event* event, unsigned timeout_ms) {
  for (unsigned waited = 0;; waited += 20) {
    for (Device& device : devices) {
      const std::string xid = device.found ? setting(&device, "xid") : "";
      std::string& told = static_cast<EventSet*>(set)->told[index_of(&device)];
      if (xid.empty() || xid == told) continue;
      told = xid;
      *event = {.device = &device,
                .type = 8,
                .data = std::strtoull(xid.c_str(), nullptr, 10),
                .gpu_instance = 0,
                .compute_instance = 0};
      return kSuccess;
    }
    if (waited >= timeout_ms) return kTimeout;
    pause_ms(20);
  }
}

}  // extern "C"
