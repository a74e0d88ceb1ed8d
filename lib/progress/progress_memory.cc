#include "lib/progress/progress_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <new>

namespace train {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

Result<void*> map_memory(int fd) {
  void* memory = ::mmap(nullptr, ProgressMemory::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return system_error(errno, "mapping a progress page");
  return memory;
}

}  // namespace

void ProgressMemory::Unmap::operator()(ProgressPage* page) const { ::munmap(page, kBytes); }

Result<ProgressMemory> ProgressMemory::make() {
  FileDescriptor fd(::memfd_create("trainrun-progress", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd.get() < 0) return system_error(errno, "making a progress page");
  if (::ftruncate(fd.get(), kBytes) != 0 || ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return system_error(errno, "sealing a progress page");
  TRY(void* memory, map_memory(fd.get()));
  return ProgressMemory(std::move(fd), new (memory) ProgressPage);
}

Result<ProgressMemory> ProgressMemory::map(FileDescriptor fd) {
  struct stat found {};
  // Linux may have added F_SEAL_EXEC (vm.memfd_noexec).
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  const bool sealed = seals >= 0 && (seals & kSeals) == kSeals &&
                      (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == 0;
  if (!sealed || ::fstat(fd.get(), &found) != 0 || found.st_size != kBytes)
    return Error{Errc::InvalidArgument,
                 "the descriptor that came with the welcome is no progress "
                 "page"};
  TRY(void* memory, map_memory(fd.get()));
  return ProgressMemory(FileDescriptor(), static_cast<ProgressPage*>(memory));
}

}  // namespace train
