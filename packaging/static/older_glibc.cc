// For programs that link libstdc++ statically (TRAIN_STATIC): GCC 12's std::random_device calls
// arc4random(), which glibc has since 2.36 only. Hidden, so that nobody else gets this one.
#include <sys/random.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

extern "C" __attribute__((visibility("hidden"))) std::uint32_t arc4random() {
  std::uint32_t number = 0;
  while (::getrandom(&number, sizeof number, 0) != sizeof number) {
    if (errno != EINTR) std::abort();  // the kernel cannot give random numbers
  }
  return number;
}
