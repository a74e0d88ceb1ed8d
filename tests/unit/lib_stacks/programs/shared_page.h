// The page through which a target program tells its test how it is doing, without a system call.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstdint>

namespace train::stacks_test {

inline constexpr int kPageFd = 3;  // of the target

struct SharedPage {
  std::atomic<std::uint64_t> turns{0};        // of its loop
  std::atomic<std::uint64_t> signals{0};      // that arrived
  std::atomic<std::uint64_t> interrupted{0};  // calls that returned EINTR and must not
  std::atomic<int> ready{0};
};

inline SharedPage* map_page(int fd) {
  void* page = ::mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return page == MAP_FAILED ? nullptr : static_cast<SharedPage*>(page);
}

}  // namespace train::stacks_test
