#include "daemon/devices/gpu_watch.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>

#include "lib/base/terminal_text.h"
#include "lib/base/text_file.h"
#include "lib/base/thread.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr unsigned kProcessesMax = 64;
constexpr std::size_t kForeignMax = 4;  // of a GPU, that are named
constexpr int kAncestorsMax = 64;
constexpr std::size_t kNameBytesMax = 96;
constexpr const char* kFirstPidNamespace = "pid:[4026531836]";  // PROC_PID_INIT_INO of the kernel
constexpr std::int64_t kNumberMax = std::int64_t{1} << 50;

std::int64_t steady_ns(TimePoint at) { return at.time_since_epoch().count(); }

struct Gpu {
  unsigned index = 0;
  void* device = nullptr;
  GpuSample sample;
};

std::int64_t bounded(unsigned long long number) {
  return static_cast<std::int64_t>(
      std::min<unsigned long long>(number, static_cast<unsigned long long>(kNumberMax)));
}

/// Return the parent of a process; 0 if it is not known.
int parent_of(const std::string& proc, int pid) {
  const std::string stat = read_text(fmt::format("{}/{}/stat", proc, pid));
  const std::size_t name_end = stat.rfind(')');  // then " S 42 …"
  if (name_end == stat.npos || name_end + 4 > stat.size()) return 0;
  int parent = 0;
  std::from_chars(stat.data() + name_end + 4, stat.data() + stat.size(), parent);
  return parent;
}

bool is_supervisor(const std::string& proc, int pid) {
  const std::string arguments = read_text(fmt::format("{}/{}/cmdline", proc, pid));
  const std::string_view program(arguments.c_str());
  // traind starts its supervisors as /proc/self/exe (daemon/server/supervisor_command).
  const std::string_view name = program.substr(program.rfind('/') + 1);
  return (name == "traind" || program == "/proc/self/exe") &&
         std::string_view(arguments)
             .substr(program.size())
             .starts_with(std::string_view("\0supervise\0", 11));
}

/// Return whether neither it nor a process above it is a supervisor. If one of them ends meanwhile,
/// that is not known.
bool is_of_no_run(const std::string& proc, int pid) {
  int above = 0;
  for (; above < kAncestorsMax && pid > 1; ++above, pid = parent_of(proc, pid))
    if (is_supervisor(proc, pid)) return false;
  return pid == 1 || above == kAncestorsMax;
}

bool sees_all_processes(const std::string& proc) {
  char name[64] = {};
  const ssize_t size = ::readlink((proc + "/self/ns/pid").c_str(), name, sizeof name - 1);
  return size > 0 && std::string_view(name, static_cast<std::size_t>(size)) == kFirstPidNamespace;
}

/// Return " of alice", " of user 1000" for one without a name, or "" if it is not known.
std::string owner_of(const std::string& process) {
  struct stat status {};
  if (::stat(process.c_str(), &status) != 0) return "";
  char buffer[4096];
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(status.st_uid, &entry, buffer, sizeof buffer, &found) == 0 && found != nullptr)
    return fmt::format(" of {}", terminal_safe(utf8_text(found->pw_name, 32)));
  return fmt::format(" of user {}", status.st_uid);
}

}  // namespace

std::string foreign_processes(const std::vector<unsigned>& pids, const std::string& proc) {
  if (pids.empty() || !sees_all_processes(proc)) return {};
  std::string text;
  std::size_t found = 0;
  for (const unsigned one : pids) {
    const int pid = static_cast<int>(one);
    std::string name = read_text(fmt::format("{}/{}/comm", proc, pid));
    if (pid <= 0 || name.empty() || !is_of_no_run(proc, pid)) continue;  // or it has ended
    if (++found > kForeignMax) continue;
    while (name.ends_with('\n')) name.pop_back();
    text +=
        fmt::format("{}pid {} ({}){}", text.empty() ? "" : ", ", pid,
                    terminal_safe(utf8_text(name, 32)), owner_of(fmt::format("{}/{}", proc, pid)));
  }
  if (found > kForeignMax) text += fmt::format(" and {} more", found - kForeignMax);
  return text;
}

struct GpuWatch::State {
  std::string library;
  Duration every{};
  // Shared; never locked during a call of NVML.
  std::mutex lock;
  std::condition_variable stopping;
  bool stop = false;
  std::vector<GpuSample> samples;
  std::atomic<bool> asked_all{false};
  std::atomic<std::int64_t> answer_by{std::numeric_limits<std::int64_t>::max()};  // of the call
  std::atomic<int> asked{-1};  // the place of the GPU that the call asks; −1: of all
  // Of the thread alone.
  std::vector<Gpu> gpus;
  std::optional<Nvml> nvml;
  void* events = nullptr;

  void run();
  bool open();
  void watch_for_xids();
  void sample(Gpu& gpu);
  void sample_values(Gpu& gpu);
  void wait();
  void take_event(const NvmlEvent& event);
  void publish();
  bool stopped() {
    const std::lock_guard guard(lock);
    return stop;
  }
  /// Make a call that is to end within `limit`.
  template <class Function, class... Arguments>
  int call(Duration limit, Function function, Arguments... arguments) {
    if (function == nullptr) return kNvmlNotSupported;
    answer_by = steady_ns(SystemClock().now() + limit);
    const int result = function(arguments...);
    answer_by = std::numeric_limits<std::int64_t>::max();
    return result;
  }
  /// Ask the GPU; return whether there is an answer.
  template <class Function, class... Arguments>
  bool ask(Gpu& gpu, Function function, Arguments... arguments) {
    if (gpu.sample.state == "lost") return false;
    const int result = call(kGpuAnswerWithin, function, gpu.device, arguments...);
    if (result == kNvmlLost) gpu.sample.state = "lost";
    return result == kNvmlSuccess;
  }
};

GpuWatch::GpuWatch(const std::vector<std::string>& gpus, std::string library, Duration every) {
  auto state = std::make_shared<State>();
  state->library = std::move(library);
  state->every = every;
  for (const std::string& name : gpus) {
    Gpu gpu{.sample = {.gpu = name}};
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), gpu.index);
    if (error == std::errc() && end == name.data() + name.size()) state->gpus.push_back(gpu);
  }
  if (state->gpus.empty()) return;
  const auto started = start_unjoined_thread("gpu-watch", [state] { state->run(); });
  if (started.has_value()) state_ = std::move(state);
}

GpuWatch::~GpuWatch() {
  if (!state_) return;
  const std::lock_guard guard(state_->lock);
  state_->stop = true;
  state_->stopping.notify_all();
}

bool GpuWatch::asked_all() const { return !state_ || state_->asked_all; }

std::vector<GpuSample> GpuWatch::newest(TimePoint now) const {
  if (!state_) return {};
  std::vector<GpuSample> samples;
  {
    const std::lock_guard guard(state_->lock);
    samples = state_->samples;
  }
  if (steady_ns(now) <= state_->answer_by) return samples;
  const int asked = state_->asked;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool hangs = asked < 0 || static_cast<std::size_t>(asked) == i;
    samples[i] = {.gpu = samples[i].gpu,
                  .name = samples[i].name,
                  .state = hangs ? "not answering" : "unknown",
                  .xids = samples[i].xids,
                  .last_xid = samples[i].last_xid};
  }
  return samples;
}

void GpuWatch::State::run() {
  if (!open()) {
    asked_all = true;
    return;
  }
  watch_for_xids();
  publish();
  while (!stopped()) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      asked = static_cast<int>(i);
      sample(gpus[i]);
    }
    asked = -1;
    publish();
    asked_all = true;
    wait();
  }
}

bool GpuWatch::State::open() {
  void* opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays: its threads may, too
  if (opened == nullptr) return false;
  nvml.emplace(opened);
  publish();  // if the next call hangs, that is to be seen
  return nvml->complete() && call(kGpuAnswerWithin, nvml->init) == kNvmlSuccess;
}

void GpuWatch::State::watch_for_xids() {
  for (Gpu& gpu : gpus) {
    const int found = call(kGpuAnswerWithin, nvml->device, gpu.index, &gpu.device);
    if (found == kNvmlLost) gpu.sample.state = "lost";
    char name[kNameBytesMax] = {};
    if (found == kNvmlSuccess && ask(gpu, nvml->name, name, unsigned{sizeof name - 1}))
      gpu.sample.name = utf8_text(name);
  }
  if (nvml->wait_event == nullptr ||
      call(kGpuAnswerWithin, nvml->make_events, &events) != kNvmlSuccess)
    events = nullptr;
  bool any = false;
  for (Gpu& gpu : gpus)
    if (events != nullptr && gpu.device != nullptr)
      any |= ask(gpu, nvml->register_events, kNvmlXidEvent, events);
  if (!any) events = nullptr;
}

void GpuWatch::State::sample(Gpu& gpu) {
  gpu.sample = {.gpu = gpu.sample.gpu,
                .name = gpu.sample.name,
                .xids = gpu.sample.xids,
                .last_xid = gpu.sample.last_xid};
  if (gpu.device == nullptr) {  // it was lost when we began
    const int found = call(kGpuAnswerWithin, nvml->device, gpu.index, &gpu.device);
    if (found != kNvmlSuccess) gpu.device = nullptr;
    gpu.sample.state = found == kNvmlSuccess ? "ok" : "lost";
  }
  sample_values(gpu);
  if (gpu.sample.state == "ok") return;
  gpu.sample = {.gpu = gpu.sample.gpu,
                .name = gpu.sample.name,
                .state = gpu.sample.state,
                .xids = gpu.sample.xids,
                .last_xid = gpu.sample.last_xid};
}

void GpuWatch::State::sample_values(Gpu& gpu) {
  GpuSample& sample = gpu.sample;
  NvmlUtilization use;
  if (ask(gpu, nvml->utilization, &use)) {
    sample.use_percent = std::min(use.gpu, 100u);
    sample.memory_use_percent = std::min(use.memory, 100u);
  }
  NvmlMemory memory;
  if (ask(gpu, nvml->memory, &memory)) {
    sample.memory_bytes = bounded(memory.total);
    sample.memory_used_bytes = bounded(memory.used);
  }
  unsigned number = 0;
  if (ask(gpu, nvml->power, &number)) sample.power_mw = number;
  if (ask(gpu, nvml->power_limit, &number)) sample.power_limit_mw = number;
  if (ask(gpu, nvml->temperature, 0, &number)) sample.temperature_c = number;
  if (ask(gpu, nvml->clock, 1, &number)) sample.clock_mhz = number;         // of the SMs
  if (ask(gpu, nvml->clock, 2, &number)) sample.memory_clock_mhz = number;  // of the memory
  unsigned long long large = 0;
  if (ask(gpu, nvml->slowdowns, &large)) sample.slowed_by = slowdown_text(large);
  if (ask(gpu, nvml->ecc_errors, 0, 0, &large)) sample.ecc_corrected = bounded(large);
  if (ask(gpu, nvml->ecc_errors, 1, 0, &large)) sample.ecc_uncorrected = bounded(large);
  NvmlProcess processes[kProcessesMax];
  unsigned count = kProcessesMax;
  if (ask(gpu, nvml->processes, &count, &processes[0])) {
    std::vector<unsigned> pids;
    for (unsigned i = 0; i < std::min(count, kProcessesMax); ++i) pids.push_back(processes[i].pid);
    sample.foreign = foreign_processes(pids);
  }
}

/// Wait until the next sample is due. Errors of the driver (Xids) come meanwhile.
void GpuWatch::State::wait() {
  const SystemClock clock;
  const TimePoint until = clock.now() + every;
  while (events != nullptr && clock.now() < until && !stopped()) {
    const auto left = std::chrono::ceil<milliseconds>(until - clock.now());
    NvmlEvent event;
    const int result = call(every + kGpuAnswerWithin, nvml->wait_event, events, &event,
                            static_cast<unsigned>(std::max<std::int64_t>(left.count(), 1)));
    if (result == kNvmlSuccess)
      take_event(event);
    else if (result != kNvmlTimeout)
      break;  // a GPU is lost, for example: then it would return at once each time
  }
  std::unique_lock guard(lock);
  stopping.wait_until(guard, until, [this] { return stop; });
}

void GpuWatch::State::take_event(const NvmlEvent& event) {
  if ((event.type & kNvmlXidEvent) == 0) return;
  for (Gpu& gpu : gpus) {
    if (gpu.device != event.device) continue;
    ++gpu.sample.xids;
    gpu.sample.last_xid = bounded(event.data);
  }
  publish();
}

void GpuWatch::State::publish() {
  const std::lock_guard guard(lock);
  samples.clear();
  for (const Gpu& gpu : gpus) samples.push_back(gpu.sample);
}

}  // namespace train
