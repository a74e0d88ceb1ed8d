// A full table of file descriptors.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace train::fakes {

/// While it lives, the process can open no file, however many it had open before.
class FullTable {
 public:
  FullTable() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlim_t highest = 0;
    for (const auto& open : std::filesystem::directory_iterator("/proc/self/fd"))
      highest = std::max<rlim_t>(highest, std::stoul(open.path().filename()));
    const rlimit few{highest + 1, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) files_.push_back(fd);
  }
  ~FullTable() {
    for (const int fd : files_) ::close(fd);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_{};
  std::vector<int> files_;
};

}  // namespace train::fakes
