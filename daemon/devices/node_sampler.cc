#include "daemon/devices/node_sampler.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>

#include "lib/base/text_file.h"

namespace train {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSectorBytes = 512;  // in /proc/diskstats, whatever the disk has
constexpr std::int64_t kNumberMax = std::int64_t{1} << 50;

/// Return the number after `key`, as in "MemTotal:  4711 kB".
std::int64_t number_after(const std::string& text, std::string_view key) {
  const std::size_t at = text.find(key);
  if (at == text.npos) return kNotKnown;
  std::istringstream rest(text.substr(at + key.size(), 64));
  std::int64_t number = kNotKnown;
  return rest >> number && number >= 0 && number <= kNumberMax ? number : kNotKnown;
}

std::int64_t kib(std::int64_t number) { return number < 0 ? kNotKnown : number * 1024; }

std::int64_t difference(std::int64_t from, std::int64_t less) {
  return from < 0 || less < 0 ? kNotKnown : std::max<std::int64_t>(from - less, 0);
}

/// Return the time that all cores were busy, from the first line of /proc/stat.
std::int64_t busy_us(const std::string& stat) {
  std::istringstream line(stat.substr(0, stat.find('\n')));
  std::string cpu;
  std::int64_t ticks[8] = {};  // user, nice, system, idle, iowait, irq, softirq, steal
  if (!(line >> cpu) || cpu != "cpu") return kNotKnown;
  for (std::int64_t& tick : ticks)
    if (!(line >> tick)) return kNotKnown;
  static const std::int64_t per_second = ::sysconf(_SC_CLK_TCK);
  const std::int64_t busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  return busy < 0 || busy > kNumberMax ? kNotKnown : busy * (1'000'000 / per_second);
}

std::int64_t load_hundredths(const std::string& loadavg) {
  double load = -1;
  std::istringstream(loadavg) >> load;
  return load >= 0 && load < 1e9 ? std::llround(load * 100) : kNotKnown;
}

/// Return whether the kernel says that a disk or network interface is a device, not made of others.
bool is_device(const std::string& root, std::string_view kind, const std::string& name) {
  std::error_code ignored;
  return fs::exists(root + "/sys/" + std::string(kind) + "/" + name + "/device", ignored);
}

void read_disks(const std::string& root, NodeSample& sample) {
  std::istringstream lines(read_text(root + "/proc/diskstats"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::int64_t major = 0, minor = 0, ignored = 0, sectors_read = 0, sectors_written = 0;
    std::string name;
    if (!(fields >> major >> minor >> name >> ignored >> ignored >> sectors_read >> ignored >>
          ignored >> ignored >> sectors_written) ||
        !is_device(root, "block", name))
      continue;
    sample.read_bytes = std::max<std::int64_t>(sample.read_bytes, 0) + sectors_read * kSectorBytes;
    sample.written_bytes =
        std::max<std::int64_t>(sample.written_bytes, 0) + sectors_written * kSectorBytes;
  }
}

/// Count the devices; where there is none, as in a container, all interfaces but loopback.
void read_network(const std::string& root, NodeSample& sample) {
  const std::string text = read_text(root + "/proc/net/dev");
  for (const bool devices_only : {true, false}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t colon = line.find(':');
      if (colon == line.npos) continue;
      const std::string name =
          line.substr(line.find_first_not_of(' '), colon - line.find_first_not_of(' '));
      if (name == "lo" || (devices_only && !is_device(root, "class/net", name))) continue;
      std::istringstream fields(line.substr(colon + 1));
      std::int64_t received = 0, sent = 0, ignored = 0;
      fields >> received;
      for (int i = 0; i < 7; ++i) fields >> ignored;
      if (!(fields >> sent)) continue;
      sample.received_bytes = std::max<std::int64_t>(sample.received_bytes, 0) + received;
      sample.sent_bytes = std::max<std::int64_t>(sample.sent_bytes, 0) + sent;
    }
    if (sample.received_bytes >= 0) return;
  }
}

std::int64_t pressure_us(const std::string& root, const char* of) {
  return number_after(read_text(root + "/proc/pressure/" + of), "total=");  // "some" is first
}

}  // namespace

NodeSample sample_node(const std::string& spool, const std::string& root) {
  NodeSample sample{.cpus = ::sysconf(_SC_NPROCESSORS_ONLN)};
  sample.cpu_us = busy_us(read_text(root + "/proc/stat"));
  sample.load_hundredths = load_hundredths(read_text(root + "/proc/loadavg"));
  const std::string memory = read_text(root + "/proc/meminfo");
  sample.memory_bytes = kib(number_after(memory, "MemTotal:"));
  sample.memory_used_bytes =
      difference(sample.memory_bytes, kib(number_after(memory, "MemAvailable:")));
  sample.swap_used_bytes =
      difference(kib(number_after(memory, "SwapTotal:")), kib(number_after(memory, "SwapFree:")));
  struct statvfs space {};
  if (::statvfs(spool.c_str(), &space) == 0) {
    sample.spool_free_bytes = static_cast<std::int64_t>(space.f_bavail * space.f_frsize);
    sample.spool_bytes = static_cast<std::int64_t>(space.f_blocks * space.f_frsize);
  }
  read_disks(root, sample);
  read_network(root, sample);
  sample.cpu_pressure_us = pressure_us(root, "cpu");
  sample.memory_pressure_us = pressure_us(root, "memory");
  sample.io_pressure_us = pressure_us(root, "io");
  return sample;
}

}  // namespace train
