#include "lib/profile/sampling/perf_event.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "lib/stacks/proc_files.h"

namespace train {
namespace {

// The kernel lets users lock little memory for this, so smaller rings are tried, too: one of 64 KiB
// has room for one sample.
constexpr std::size_t kRingBytes[] = {256u << 10, 128u << 10, 64u << 10};

std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

perf_event_attr attributes_of_samples() {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;  // virtual machines have no counter of cycles
  attributes.config = PERF_COUNT_SW_CPU_CLOCK;
  attributes.freq = 1;
  attributes.sample_freq = kPerfHz;
  attributes.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
  attributes.sample_regs_user = kPerfRegisters;
  attributes.sample_stack_user = kPerfStackBytes;
  attributes.exclude_hv = 1;
  attributes.watermark = 1;
  attributes.wakeup_watermark = kPerfStackBytes;
  return attributes;
}

Error perf_error() {
  const int number = errno;
  Error error = system_error(number, "perf_event_open");
  if (number == ESRCH)
    error.code = Errc::NotFound;
  else if (number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOSPC)
    error.code = Errc::ResourceExhausted;
  else  // also EINVAL, ENOENT, ENOSYS, EOPNOTSUPP: what this kernel cannot do
    error.code = Errc::Permission;
  return error;
}

}  // namespace

int open_perf_event(perf_event_attr& attributes, pid_t tid) {
  return static_cast<int>(
      ::syscall(SYS_perf_event_open, &attributes, tid, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

std::string perf_event_paranoid() {
  std::string text = read_proc_text("/proc/sys/kernel/perf_event_paranoid", 16);
  text.resize(std::min(text.find('\n'), text.size()));
  return text.empty() ? "not known" : text;
}

Result<PerfEvent> PerfEvent::open(pid_t tid, const PerfOpen& perf_open) {
  perf_event_attr attributes = attributes_of_samples();
  FileDescriptor file(perf_open(attributes, tid));
  if (file.get() < 0 && (errno == EACCES || errno == EPERM)) {
    attributes.exclude_kernel = 1;
    file.reset(perf_open(attributes, tid));
  }
  if (file.get() < 0) return perf_error();
  for (const std::size_t bytes : kRingBytes) {
    void* ring =
        ::mmap(nullptr, page_bytes() + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (ring != MAP_FAILED)
      return PerfEvent(std::move(file), ring, bytes, attributes.exclude_kernel == 0);
  }
  return Error{Errc::ResourceExhausted, system_error(errno, "locking memory for samples").message};
}

PerfEvent::~PerfEvent() {
  if (ring_ != nullptr) ::munmap(ring_, page_bytes() + bytes_);
}

void PerfEvent::drain(const std::function<void(ThreadCapture)>& sample, PerfCounts& counts) {
  auto* control = static_cast<perf_event_mmap_page*>(ring_);
  const char* data = static_cast<const char*>(ring_) + page_bytes();
  const std::uint64_t head = std::atomic_ref(control->data_head).load(std::memory_order_acquire);
  const std::uint64_t tail = control->data_tail;
  std::string records(static_cast<std::size_t>(std::min<std::uint64_t>(head - tail, bytes_)), '\0');
  const std::size_t begin = tail & (bytes_ - 1);
  const std::size_t first = std::min(records.size(), bytes_ - begin);
  std::memcpy(records.data(), data + begin, first);
  std::memcpy(records.data() + first, data, records.size() - first);
  std::atomic_ref(control->data_tail).store(head, std::memory_order_release);
  read_perf_records(records, sample, counts);
}

}  // namespace train
