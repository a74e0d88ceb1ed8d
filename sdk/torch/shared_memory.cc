#include "sdk/torch/shared_memory.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <vector>

namespace train::sdk {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kSlots = 2;
constexpr int kSpins = 200;  // of some ten nanoseconds, before the rank sleeps
constexpr std::chrono::milliseconds kLookEvery{100};  // for `stop`, and for ranks that have ended
constexpr std::size_t kCacheLine = 64;

/// What another rank waits for. Counts may wrap around.
struct alignas(kCacheLine) Count {
  std::atomic<std::uint32_t> value{0};

  void set(std::uint32_t to) {
    value.store(to, std::memory_order_release);
    ::syscall(SYS_futex, &value, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
  }
  bool reached(std::uint32_t count) const {
    return static_cast<std::int32_t>(value.load(std::memory_order_acquire) - count) >= 0;
  }
  /// Wait a little, unless the count is reached.
  void wait(std::uint32_t count) {
    for (int i = 0; i < kSpins; ++i) {
      if (reached(count)) return;
      __builtin_ia32_pause();
    }
    const std::uint32_t seen = value.load(std::memory_order_acquire);
    if (static_cast<std::int32_t>(seen - count) >= 0) return;
    const timespec limit{0, std::chrono::nanoseconds(kLookEvery).count()};
    ::syscall(SYS_futex, &value, FUTEX_WAIT, seen, &limit, nullptr, 0);
  }
};

/// What a piece belongs to: alike on all ranks.
struct Header {
  std::uint32_t op = 0, type = 0;
  std::uint64_t elements = 0, first = 0;
  bool operator==(const Header&) const = default;
};

struct alignas(kCacheLine) Rank {
  std::atomic<std::int32_t> pid{0};
  Count written, done;  // pieces
  Header headers[kSlots];
};

template <class T>
void add(std::byte* out, const std::byte* a, const std::byte* b, std::size_t elements) {
  auto* sum = reinterpret_cast<T*>(out);
  const auto* left = reinterpret_cast<const T*>(a);
  const auto* right = reinterpret_cast<const T*>(b);
  for (std::size_t i = 0; i < elements; ++i) sum[i] = static_cast<T>(left[i] + right[i]);
}

void add(SumType type, std::byte* out, const std::byte* a, const std::byte* b,
         std::size_t elements) {
  switch (type) {
    case SumType::Float32:
      return add<float>(out, a, b, elements);
    case SumType::Float64:
      return add<double>(out, a, b, elements);
    case SumType::BFloat16:
      return add<c10::BFloat16>(out, a, b, elements);
    case SumType::Float16:
      return add<c10::Half>(out, a, b, elements);
    case SumType::Int32:
      return add<std::uint32_t>(out, a, b, elements);  // signed numbers that overflow wrap, too
    case SumType::Int64:
      return add<std::uint64_t>(out, a, b, elements);
  }
}

const char* type_name(std::uint32_t type) {
  static constexpr const char* kNames[] = {"float32", "float64", "bfloat16",
                                           "float16", "int32",   "int64"};
  return type < std::size(kNames) ? kNames[type] : "another type";
}

const char* op_name(std::uint32_t op) {
  static constexpr const char* kNames[] = {"all_reduce", "all_gather", "reduce_scatter"};
  return op < std::size(kNames) ? kNames[op] : "another call";
}

/// Return whether a process of this user has ended, also if its parent has not taken note yet.
bool has_ended(std::int32_t pid) {
  if (pid <= 0) return false;
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.get() < 0) return errno == ESRCH;
  pollfd end{process.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

}  // namespace

std::size_t element_size(SumType type) {
  switch (type) {
    case SumType::BFloat16:
    case SumType::Float16:
      return 2;
    case SumType::Float32:
    case SumType::Int32:
      return 4;
    case SumType::Float64:
    case SumType::Int64:
      return 8;
  }
  return 8;
}

struct SharedMemory::Layout {
  Rank ranks[kSharedRanksMax];
  alignas(4096) std::byte slots[kSharedRanksMax][kSlots][kSharedSlotBytes];
};

Result<std::unique_ptr<SharedMemory>> SharedMemory::map(FileDescriptor file, int rank, int ranks) {
  void* memory = ::mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) return system_error(errno, "mapping the memory that ranks share");
  // All zero bytes are a layout at its beginning.
  auto* layout = static_cast<Layout*>(memory);
  layout->ranks[rank].pid = ::getpid();
  return std::unique_ptr<SharedMemory>(new SharedMemory(std::move(file), layout, rank, ranks));
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::make(int rank, int ranks) {
  // The limit of files is for memory, too, and to exceed it is SIGXFSZ.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < sizeof(Layout))
    return Error{Errc::ResourceExhausted,
                 "the memory that ranks share has " + std::to_string(sizeof(Layout)) +
                     " bytes, and the limit of files is " + std::to_string(limit.rlim_cur),
                 "raise it: run_config.rlimits.fsize, or ulimit -f"};
  FileDescriptor file(::memfd_create("trainrun-sums", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file.get() < 0) return system_error(errno, "making memory that ranks share");
  if (::ftruncate(file.get(), sizeof(Layout)) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return system_error(errno, "sizing the memory that ranks share");
  return map(std::move(file), rank, ranks);
}

std::string SharedMemory::name() const {
  struct stat status {};
  ::fstat(file_.get(), &status);
  return std::to_string(::getpid()) + " " + std::to_string(file_.get()) + " " +
         std::to_string(status.st_dev) + " " + std::to_string(status.st_ino);
}

Result<std::unique_ptr<SharedMemory>> SharedMemory::open(const std::string& name, int rank,
                                                         int ranks) {
  std::vector<std::uint64_t> numbers;
  const char* at = name.data();
  const char* const end = name.data() + name.size();
  while (at < end) {
    std::uint64_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc()) break;
    numbers.push_back(number);
    at = next == end ? next : next + 1;
  }
  if (numbers.size() != 4) return Error{Errc::Protocol, "no name of shared memory: " + name};
  FileDescriptor file(
      ::open(("/proc/" + std::to_string(numbers[0]) + "/fd/" + std::to_string(numbers[1])).c_str(),
             O_RDWR | O_CLOEXEC));
  if (file.get() < 0) return system_error(errno, "opening the memory that ranks share");
  // In another PID namespace or on another machine, the process is another one.
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || status.st_dev != numbers[2] ||
      status.st_ino != numbers[3] || status.st_uid != ::geteuid() ||
      status.st_size != static_cast<off_t>(sizeof(Layout)) ||
      (::fcntl(file.get(), F_GET_SEALS) & F_SEAL_SHRINK) == 0)
    return Error{Errc::Unavailable, "the memory that ranks share is not on this machine"};
  return map(std::move(file), rank, ranks);
}

SharedMemory::~SharedMemory() { ::munmap(layout_, sizeof(Layout)); }

std::byte* SharedMemory::slot(int rank, std::uint32_t piece) const {
  return layout_->slots[rank][piece % kSlots];
}

Result<Unit> SharedMemory::await(const Call& call, bool written, std::uint32_t count) {
  const auto until = Clock::now() + call.timeout;
  for (int rank = 0; rank < ranks_; ++rank) {
    Rank& other = layout_->ranks[rank];
    Count& counter = written ? other.written : other.done;
    while (!counter.reached(count)) {
      counter.wait(count);
      if (counter.reached(count)) break;
      if (call.stop != nullptr && *call.stop)
        return Error{Errc::Cancelled, "the group is being closed"};
      if (has_ended(other.pid))
        return Error{Errc::Unavailable,
                     "rank " + std::to_string(rank) + " has ended: Connection closed"};
      if (Clock::now() > until) {
        return Error{Errc::Timeout, "timed out after " +
                                        std::to_string(call.timeout.count() / 1000) + " s: rank " +
                                        std::to_string(rank) + " has not come to this " +
                                        op_name(static_cast<std::uint32_t>(call.op))};
      }
    }
  }
  return Unit{};
}

Result<Unit> SharedMemory::compare() {
  const Header& own = layout_->ranks[rank_].headers[pieces_ % kSlots];
  for (int rank = 0; rank < ranks_; ++rank) {
    const Header& other = layout_->ranks[rank].headers[pieces_ % kSlots];
    if (other == own) continue;
    const auto given = [](int by, const Header& header) {
      return "rank " + std::to_string(by) + " gave " + std::to_string(header.elements) +
             " elements of " + type_name(header.type) + " to " + op_name(header.op);
    };
    return Error{Errc::InvalidArgument, given(rank_, own) + ", and " + given(rank, other),
                 "all ranks must make the same calls, in the same order, with tensors of the same "
                 "type and size"};
  }
  return Unit{};
}

std::size_t SharedMemory::piece_elements(const Call& call) const {
  const std::size_t fit = kSharedSlotBytes / element_size(call.type);
  return call.op == SharedOp::ReduceScatter ? fit / static_cast<std::size_t>(ranks_) : fit;
}

void SharedMemory::copy_in(const Call& call, std::size_t first, std::size_t count,
                           std::byte* slot) const {
  if (count == 0) return;
  const std::size_t size = element_size(call.type);
  const auto* input = static_cast<const std::byte*>(call.input);
  if (call.op != SharedOp::ReduceScatter) {
    std::memcpy(slot, input + first * size, count * size);
    return;
  }
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks_); ++rank) {
    std::memcpy(slot + rank * count * size, input + (rank * call.elements + first) * size,
                count * size);
  }
}

void SharedMemory::copy_out(const Call& call, std::size_t first, std::size_t count) const {
  if (count == 0) return;
  const std::size_t size = element_size(call.type);
  auto* output = static_cast<std::byte*>(call.output);
  if (call.op == SharedOp::AllGather) {
    for (int rank = 0; rank < ranks_; ++rank)
      std::memcpy(output + (static_cast<std::size_t>(rank) * call.elements + first) * size,
                  slot(rank, pieces_), count * size);
    return;
  }
  const std::size_t own =
      call.op == SharedOp::ReduceScatter ? static_cast<std::size_t>(rank_) * count * size : 0;
  std::byte* const out = output + first * size;
  if (ranks_ == 1) {
    std::memcpy(out, slot(0, pieces_) + own, count * size);
    return;
  }
  add(call.type, out, slot(0, pieces_) + own, slot(1, pieces_) + own, count);
  for (int rank = 2; rank < ranks_; ++rank)
    add(call.type, out, out, slot(rank, pieces_) + own, count);
}

Result<Unit> SharedMemory::run(const Call& call) {
  Rank& own = layout_->ranks[rank_];
  const std::size_t at_once = piece_elements(call);
  const auto elements_at = [&](std::size_t first) {
    return std::min(at_once, call.elements - first);
  };
  const auto write = [&](std::size_t first, std::uint32_t piece) -> Result<Unit> {
    // The slot was that of two pieces before: all must have read it.
    TRY_VOID(await(call, /*written=*/false, piece - 1));
    own.headers[piece % kSlots] = {static_cast<std::uint32_t>(call.op),
                                   static_cast<std::uint32_t>(call.type), call.elements, first};
    copy_in(call, first, elements_at(first), slot(rank_, piece));
    own.written.set(piece + 1);
    return Unit{};
  };
  TRY_VOID(write(0, pieces_));
  for (std::size_t first = 0;; first += at_once) {
    const std::size_t next = first + at_once;
    const bool last = next >= call.elements;
    if (!last) TRY_VOID(write(next, pieces_ + 1));
    TRY_VOID(await(call, /*written=*/true, pieces_ + 1));
    TRY_VOID(compare());
    copy_out(call, first, elements_at(first));
    own.done.set(++pieces_);
    if (last) return Unit{};
  }
}

}  // namespace train::sdk
