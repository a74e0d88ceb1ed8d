#include "daemon/supervisor/workers/core_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/stacks/core_image.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

constexpr std::size_t kPieceBytes = 1u << 20;

Error refused(const CoreCopyOrder& order, std::string_view why) {
  return {Errc::InvalidArgument, fmt::format("'{}' {}", order.core, why)};
}

/// Open the core file if it is the worker's and small enough.
Result<FileDescriptor> open_core(const CoreCopyOrder& order, std::uint64_t& size) {
  FileDescriptor file(
      ::open(order.core.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (file.get() < 0) return system_error(errno, order.core);
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return system_error(errno, order.core);
  if (!S_ISREG(found.st_mode) || found.st_uid != ::geteuid())
    return refused(order, "is no file of the worker's user");
  const auto taken = static_cast<std::uint64_t>(found.st_blocks) * 512;
  if (taken > order.bytes_max) return refused(order, "is too large");
  const auto image = read_core_image(file.get());
  if (!image || image->pid != order.pid) return refused(order, "is of another process");
  size = static_cast<std::uint64_t>(found.st_size);
  return file;
}

/// Claim one of the places of a run, whoever else does: a file for each of them.
Result<std::string> claim_place(const FileDescriptor& attempts) {
  for (int place = 0; place < kCoresOfRunMax; ++place) {
    std::string name = fmt::format(".core-{}", place);
    const FileDescriptor claim(::openat(
        attempts.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (claim.get() >= 0) return name;
    if (errno != EEXIST) return system_error(errno, "a place for a core file");
  }
  return Error{Errc::ResourceExhausted, fmt::format("the run has {} core files", kCoresOfRunMax)};
}

Result<FileDescriptor> open_folder(int parent, const std::string& name) {
  FileDescriptor folder(
      ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) return system_error(errno, name);
  return folder;
}

Result<Unit> copy_range(int from, int to, std::uint64_t at, std::uint64_t end,
                        const TimePoint& deadline) {
  std::vector<char> piece(kPieceBytes);
  while (at < end) {
    if (std::chrono::steady_clock::now() > deadline)
      return Error{Errc::Timeout, "copying the core file took too long"};
    const ssize_t got = ::pread(from, piece.data(), std::min<std::uint64_t>(kPieceBytes, end - at),
                                static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "reading the core file");
    if (got == 0) return Unit{};
    for (ssize_t done = 0; done < got;) {
      const ssize_t put = ::pwrite(to, piece.data() + done, static_cast<std::size_t>(got - done),
                                   static_cast<off_t>(at) + done);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return system_error(errno, "copying the core file");
      done += put;
    }
    at += static_cast<std::uint64_t>(got);
  }
  return Unit{};
}

Result<Unit> copy_without_holes(int from, int to, std::uint64_t size, const TimePoint& deadline) {
  if (::ftruncate(to, static_cast<off_t>(size)) != 0)
    return system_error(errno, "copying the core file");
  for (off_t at = 0; static_cast<std::uint64_t>(at) < size;) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0 && errno != ENXIO) return system_error(errno, "reading the core file");
    if (data < 0) break;  // only a hole is left
    off_t hole = ::lseek(from, data, SEEK_HOLE);
    if (hole < 0) hole = static_cast<off_t>(size);
    TRY_VOID(copy_range(from, to, static_cast<std::uint64_t>(data),
                        std::min(static_cast<std::uint64_t>(hole), size), deadline));
    at = hole;
  }
  return Unit{};
}

Result<Unit> copy_into(const CoreCopyOrder& order, const FileDescriptor& core, std::uint64_t size,
                       const FileDescriptor& attempt, const std::string& name) {
  if (::mkdirat(attempt.get(), "cores", 0700) != 0 && errno != EEXIST)
    return system_error(errno, "making a folder for core files");
  TRY(const FileDescriptor cores, open_folder(attempt.get(), "cores"));
  const std::string draft = "." + name;
  const FileDescriptor copy(::openat(cores.get(), draft.c_str(),
                                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (copy.get() < 0) return system_error(errno, "copying the core file");
  Result<Unit> copied = copy_without_holes(core.get(), copy.get(), size, order.deadline);
  if (copied && ::renameat(cores.get(), draft.c_str(), cores.get(), name.c_str()) != 0)
    copied = system_error(errno, "naming the copy of the core file");
  if (!copied) ::unlinkat(cores.get(), draft.c_str(), 0);
  return copied;
}

}  // namespace

Result<std::string> copy_core(const CoreCopyOrder& order) {
  if (!order.run_dir.starts_with('/'))
    return Error{Errc::InvalidArgument, "the run's folder is in an object store"};
  std::uint64_t size = 0;
  TRY(const FileDescriptor core, open_core(order, size));
  const RunFolder run(order.run_dir);
  // The launcher has made it, if this node sees the run's folder.
  TRY(const FileDescriptor attempt, open_folder(AT_FDCWD, run.attempt(order.attempt)));
  TRY(const FileDescriptor attempts, open_folder(attempt.get(), ".."));
  TRY(const std::string place, claim_place(attempts));
  const std::string name = fmt::format("core.rank-{:04}.{}", order.rank.value, order.pid);
  const auto copied = copy_into(order, core, size, attempt, name);
  if (!copied) {
    ::unlinkat(attempts.get(), place.c_str(), 0);
    return copied.error();
  }
  return run.cores(order.attempt) + "/" + name;
}

}  // namespace train
