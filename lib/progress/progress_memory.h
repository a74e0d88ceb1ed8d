// A progress page in memory that two processes share: the supervisor makes it and passes its
// descriptor to the worker with the welcome.
#pragma once

#include <memory>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/progress/progress_page.h"

namespace train {

class ProgressMemory {
 public:
  /// Make a page whose size nobody can change.
  static Result<ProgressMemory> make();
  /// Map the page behind `fd`, which another process made. InvalidArgument if it is no such page.
  static Result<ProgressMemory> map(FileDescriptor fd);

  ProgressPage& page() const { return *page_; }
  int fd() const { return fd_.get(); }

 private:
  struct Unmap {
    void operator()(ProgressPage* page) const;
  };
  ProgressMemory(FileDescriptor fd, ProgressPage* page) : fd_(std::move(fd)), page_(page) {}

  FileDescriptor fd_;
  std::unique_ptr<ProgressPage, Unmap> page_;
};

}  // namespace train
