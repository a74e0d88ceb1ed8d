#include "launcher/bundle/machine_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "lib/base/host.h"
#include "lib/base/text_file.h"
#include "lib/base/time.h"

namespace train {
namespace {

namespace fs = std::filesystem;

struct Limit {
  __rlimit_resource resource;
  const char* name;
};
constexpr std::array kLimits{Limit{RLIMIT_CORE, "core"},   Limit{RLIMIT_NOFILE, "nofile"},
                             Limit{RLIMIT_NPROC, "nproc"}, Limit{RLIMIT_MEMLOCK, "memlock"},
                             Limit{RLIMIT_STACK, "stack"}, Limit{RLIMIT_AS, "as"},
                             Limit{RLIMIT_FSIZE, "fsize"}, Limit{RLIMIT_DATA, "data"}};

constexpr std::array kKernelFiles{"/proc/sys/kernel/core_pattern",
                                  "/proc/sys/kernel/yama/ptrace_scope",
                                  "/proc/sys/kernel/perf_event_paranoid",
                                  "/proc/sys/kernel/pid_max",
                                  "/proc/sys/vm/max_map_count",
                                  "/proc/sys/vm/overcommit_memory",
                                  "/proc/sys/fs/suid_dumpable",
                                  "/sys/fs/cgroup/cgroup.controllers",
                                  "/proc/driver/nvidia/version",
                                  "/sys/module/nvidia/version",
                                  "/proc/loadavg",
                                  "/proc/self/cgroup"};

/// Variables that steer what workers do, by the beginning of their names.
constexpr std::array<std::string_view, 14> kVariables{
    "CUDA_",   "NCCL_", "GLOO_", "OMP_", "MKL_",      "TORCH_",   "TRAINRUN_",
    "NVIDIA_", "UCX_",  "FI_",   "LD_",  "SLURM_JOB", "PYTORCH_", "MALLOC_"};

/// Return the value of a line "name : value" of a file in /proc, or "".
std::string value_in(const std::string& text, std::string_view name) {
  for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
    const std::string_view line = std::string_view(text).substr(at, text.find('\n', at) - at);
    if (line.starts_with(name)) {
      const std::size_t value = line.find_first_not_of(" \t:=", name.size());
      return value == line.npos ? "" : std::string(line.substr(value));
    }
    if (text.find('\n', at) == std::string::npos) break;
  }
  return {};
}

std::string limit_text(rlim_t value) {
  return value == RLIM_INFINITY ? "unlimited" : std::to_string(value);
}

void add_system(std::string& text, const std::string& build) {
  struct utsname system {};
  ::uname(&system);
  text += fmt::format("trainrun: {}\ntime: {}\nhost: {}\nuser: uid {}, gid {}\n", build,
                      format_utc(std::chrono::system_clock::now()), host_name(), ::getuid(),
                      ::getgid());
  text += fmt::format("system: {} {} {} {}\n", system.sysname, system.release, system.version,
                      system.machine);
  text +=
      fmt::format("distribution: {}\nglibc: {}\n",
                  value_in(read_text("/etc/os-release"), "PRETTY_NAME"), ::gnu_get_libc_version());
  text +=
      fmt::format("processor: {} ({} for us)\n", value_in(read_text("/proc/cpuinfo"), "model name"),
                  std::thread::hardware_concurrency());
  const std::string memory = read_text("/proc/meminfo");
  for (const char* name : {"MemTotal", "MemAvailable", "SwapTotal", "SwapFree"})
    text += fmt::format("{}: {}\n", name, value_in(memory, name));
}

void add_limits(std::string& text) {
  for (const Limit& limit : kLimits) {
    struct rlimit value {};
    if (::getrlimit(limit.resource, &value) == 0)
      text += fmt::format("ulimit {}: {} of {}\n", limit.name, limit_text(value.rlim_cur),
                          limit_text(value.rlim_max));
  }
  struct statfs cgroups {};
  constexpr long kCgroup2 = 0x63677270;
  const bool known = ::statfs("/sys/fs/cgroup", &cgroups) == 0;
  text += fmt::format("cgroups: {}\n", !known                       ? "none visible"
                                       : cgroups.f_type == kCgroup2 ? "v2"
                                                                    : "v1, or both");
}

void add_files(std::string& text) {
  for (const char* path : kKernelFiles) {
    std::string content = read_text(path);
    while (content.ends_with('\n')) content.pop_back();
    if (!content.empty()) text += fmt::format("{}: {}\n", path, content);
  }
  std::error_code error;
  for (fs::directory_iterator gpu("/proc/driver/nvidia/gpus", error), end; !error && gpu != end;
       gpu.increment(error))
    text += fmt::format("gpu {}:\n{}", gpu->path().filename().string(),
                        read_text((gpu->path() / "information").string()));
}

void add_storage(std::string& text, const std::string& folder) {
  struct statfs storage {};
  if (::statfs(folder.c_str(), &storage) != 0) return;
  const auto block = static_cast<std::uint64_t>(storage.f_bsize);
  text += fmt::format("storage of the run: type {:#x}, {} of {} bytes free, {} of {} files free\n",
                      static_cast<std::uint64_t>(storage.f_type), storage.f_bavail * block,
                      storage.f_blocks * block, storage.f_ffree, storage.f_files);
}

void add_variables(std::string& text) {
  std::set<std::string> lines;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    const bool steers = std::any_of(kVariables.begin(), kVariables.end(),
                                    [&](std::string_view name) { return line.starts_with(name); });
    if (steers) lines.insert("variable " + std::string(line) + "\n");
  }
  for (const std::string& line : lines) text += line;
}

}  // namespace

std::string machine_facts(const std::string& build, const std::string& folder) {
  std::string text;
  add_system(text, build);
  add_limits(text);
  add_files(text);
  add_storage(text, folder);
  add_variables(text);
  return text;
}

std::string training_libraries_of(int pid) {
  constexpr std::array<std::string_view, 8> kNames{"libtorch", "libc10",     "libnccl",
                                                   "libcuda",  "libcudart",  "libcudnn",
                                                   "libgloo",  "libtrainrun"};
  const std::string maps = read_text(fmt::format("/proc/{}/maps", pid));
  std::set<std::string> paths;
  for (std::size_t at = 0; at < maps.size();) {
    const std::size_t end = std::min(maps.find('\n', at), maps.size());
    const std::string_view line = std::string_view(maps).substr(at, end - at);
    const std::size_t path = line.find('/'), name = line.rfind('/') + 1;
    if (path != line.npos &&
        std::any_of(kNames.begin(), kNames.end(),
                    [&](std::string_view wanted) { return line.substr(name).starts_with(wanted); }))
      paths.insert(std::string(line.substr(path)));
    at = end + 1;
  }
  std::string text;
  for (const std::string& path : paths) {
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    text += fmt::format("{} ({} bytes)\n", path, error ? 0 : bytes);
  }
  return text;
}

}  // namespace train
