// A library that a program loads while its memory is watched.
#include <cstdlib>

extern "C" [[gnu::visibility("default")]] void* allocate_in_library(std::size_t bytes) {
  void* volatile memory = std::malloc(bytes);
  return memory;
}
extern "C" [[gnu::visibility("default")]] void free_in_library(void* memory) { std::free(memory); }
