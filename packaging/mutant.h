// The beginning of each file into which packaging/mutants.py has put faults.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

/// Return whether the environment asks for fault `number`. Note in the file MUTANTS_SEEN,
/// a byte a fault, that the program came here.
inline bool trainrun_mutant(int number) noexcept {
  static const char* const chosen = std::getenv("MUTANT");
  static const int wanted = chosen != nullptr ? std::atoi(chosen) : 0;
  static char* const seen = []() noexcept -> char* {
    const char* path = std::getenv("MUTANTS_SEEN");
    const int fd = path != nullptr ? ::open(path, O_RDWR | O_CLOEXEC) : -1;
    struct stat is {};
    if (fd < 0 || ::fstat(fd, &is) != 0) return nullptr;
    void* const bytes = ::mmap(nullptr, static_cast<std::size_t>(is.st_size),
                               PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    return bytes == MAP_FAILED ? nullptr : static_cast<char*>(bytes);
  }();
  if (seen != nullptr) seen[number] = 1;
  return number == wanted;
}
