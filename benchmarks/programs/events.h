// Records when a measured worker reached a point: it appends one line "name rank pid nanoseconds"
// of CLOCK_MONOTONIC to the file in BENCH_EVENTS (in one write, so lines of many workers never
// mix), and prints it. The harness compares it with the same clock's time of the launch or the
// kill, so that output paths do not affect the figure.
#pragma once

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace bench {

inline long long monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

/// Append one event. End the process if the file cannot be written: a lost event would look like a
/// hang.
inline void event(const char* name, long long at_ns = monotonic_ns()) {
  const char* rank = std::getenv("RANK");
  const char* path = std::getenv("BENCH_EVENTS");
  const std::string line = std::string(name) + ' ' + (rank != nullptr ? rank : "0") + ' ' +
                           std::to_string(getpid()) + ' ' + std::to_string(at_ns) + '\n';
  if (path != nullptr) {
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      std::perror(path);
      std::_Exit(74);
    }
    close(file);
  }
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

/// Return whether this worker should stay until it is killed, which holds while the file in
/// BENCH_HOLD exists. The harness removes the file before the kill, so that the workers of the
/// restarted group end by themselves.
inline bool held() {
  const char* path = std::getenv("BENCH_HOLD");
  return path != nullptr && access(path, F_OK) == 0;
}

}  // namespace bench
