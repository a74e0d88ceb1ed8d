// Lets test workers wait for files from a test or the launcher; the kernel wakes them. There is no
// deadline here: the test has one, and ends its workers.
#pragma once

#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

namespace train::e2e {

class FileWatch {
 public:
  FileWatch() : fd_(::inotify_init1(IN_CLOEXEC)) {}
  ~FileWatch() { ::close(fd_); }
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  bool watch(const std::string& path, unsigned events) const {
    return ::inotify_add_watch(fd_, path.c_str(), events) >= 0;
  }
  void wait() const {
    alignas(inotify_event) char events[4096];
    [[maybe_unused]] const auto got = ::read(fd_, events, sizeof events);
  }

 private:
  int fd_;
};

/// Return once the file exists. Parent folders may be made later.
inline void wait_for_file(const std::filesystem::path& path) {
  const FileWatch watch;
  const auto there = [](const std::filesystem::path& at) {
    return ::access(at.c_str(), F_OK) == 0;
  };
  while (!there(path)) {
    std::filesystem::path next = path, folder = path.parent_path();
    while (!watch.watch(folder.empty() ? "." : folder, IN_CREATE | IN_MOVED_TO)) {
      next = folder;
      folder = next.parent_path();
    }
    if (!there(next)) watch.wait();
  }
}

/// Reads a log while its writer appends to it.
class GrowingLog {
 public:
  explicit GrowingLog(const std::string& path) {
    wait_for_file(path);
    watch_.watch(path, IN_MODIFY);
    file_.open(path, std::ios::binary);
  }
  /// Return once the log holds `text` after what the previous call found.
  void wait_for(const std::string& text) {
    for (;;) {
      if (const std::size_t at = unread_.find(text); at != std::string::npos) {
        unread_.erase(0, at + text.size());
        return;
      }
      unread_.erase(0, unread_.size() - std::min(unread_.size(), text.size()));
      char bytes[64 << 10];
      file_.clear();
      file_.read(bytes, sizeof bytes);
      unread_.append(bytes, static_cast<std::size_t>(file_.gcount()));
      if (file_.gcount() == 0) watch_.wait();
    }
  }

 private:
  FileWatch watch_;
  std::ifstream file_;
  std::string unread_;
};

}  // namespace train::e2e
