#include "daemon/devices/nvml.h"

#include <dlfcn.h>

#include <array>
#include <string_view>

namespace train {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

struct Slowdown {
  unsigned long long bits;
  std::string_view text;
};
constexpr std::array kSlowdowns{
    Slowdown{0x04, "power cap"},   Slowdown{0x08, "hardware slowdown"},
    Slowdown{0x10, "sync boost"},  Slowdown{0x20 | 0x40, "thermal"},
    Slowdown{0x80, "power brake"},
};

}  // namespace

Nvml::Nvml(void* library) {
  find(library, "nvmlInit_v2", init);
  find(library, "nvmlShutdown", shutdown);
  find(library, "nvmlDeviceGetCount_v2", count);
  find(library, "nvmlDeviceGetHandleByIndex_v2", device);
  find(library, "nvmlDeviceGetUUID", uuid);
  find(library, "nvmlDeviceGetName", name);
  find(library, "nvmlDeviceGetPciInfo_v3", pci);
  find(library, "nvmlDeviceGetUtilizationRates", utilization);
  find(library, "nvmlDeviceGetMemoryInfo", memory);
  find(library, "nvmlDeviceGetPowerUsage", power);
  find(library, "nvmlDeviceGetEnforcedPowerLimit", power_limit);
  find(library, "nvmlDeviceGetTemperature", temperature);
  find(library, "nvmlDeviceGetClockInfo", clock);
  find(library, "nvmlDeviceGetCurrentClocksThrottleReasons", slowdowns);
  find(library, "nvmlDeviceGetTotalEccErrors", ecc_errors);
  find(library, "nvmlDeviceGetComputeRunningProcesses_v3", processes);
  find(library, "nvmlEventSetCreate", make_events);
  find(library, "nvmlDeviceRegisterEvents", register_events);
  find(library, "nvmlEventSetWait_v2", wait_event);
}

std::string slowdown_text(unsigned long long reasons) {
  std::string text;
  for (const Slowdown& slowdown : kSlowdowns) {
    if ((reasons & slowdown.bits) == 0) continue;
    if (!text.empty()) text += ", ";
    text += slowdown.text;
  }
  return text;
}

}  // namespace train
