// The memory that a worker and its supervisor share: a progress page, and behind it the record of a
// crash, and what the operators of its datasets do. The supervisor makes it and passes its
// descriptor to the worker with the welcome.
#pragma once

#include <memory>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/progress/crash_record.h"
#include "lib/progress/data_page.h"
#include "lib/progress/progress_page.h"

namespace train {

class ProgressMemory {
 public:
  static constexpr std::size_t kDataOffset =
      kProgressBytes + (sizeof(CrashRecord) + 4095) / 4096 * 4096;
  static constexpr std::size_t kBytes = kDataOffset + (sizeof(DataPage) + 4095) / 4096 * 4096;

  /// Make memory whose size nobody can change.
  static Result<ProgressMemory> make();
  /// Map the memory behind `fd`, which another process made. InvalidArgument if it is none such.
  static Result<ProgressMemory> map(FileDescriptor fd);

  ProgressPage& page() const { return *page_; }
  CrashRecord& crash() const {
    return *reinterpret_cast<CrashRecord*>(reinterpret_cast<char*>(page_.get()) + kProgressBytes);
  }
  DataPage& data() const {
    return *reinterpret_cast<DataPage*>(reinterpret_cast<char*>(page_.get()) + kDataOffset);
  }
  int fd() const { return fd_.get(); }  // of make(); map() keeps none

 private:
  struct Unmap {
    void operator()(ProgressPage* page) const;
  };
  ProgressMemory(FileDescriptor fd, ProgressPage* page) : fd_(std::move(fd)), page_(page) {}

  FileDescriptor fd_;
  std::unique_ptr<ProgressPage, Unmap> page_;
};

}  // namespace train
