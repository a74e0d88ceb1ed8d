// A file system in which no read or write of its only file, `data`, is ever answered: who tries it
// waits in the kernel, and not even SIGKILL ends that (state D), until the file system is gone.
// Speaks FUSE's protocol (linux/fuse.h) with the kernel itself. Needs root and /dev/fuse.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "lib/base/file_descriptor.h"

namespace train::e2e {

class StuckFileSystem {
 public:
  /// Mount it at `folder`, which exists. Return nullptr if this machine does not let us.
  static std::unique_ptr<StuckFileSystem> mount_at(const std::string& folder);
  StuckFileSystem(FileDescriptor device, std::string folder);
  StuckFileSystem(const StuckFileSystem&) = delete;
  ~StuckFileSystem() { abort(); }

  std::string data() const { return folder_ + "/data"; }
  /// Fail all that waits, and unmount.
  void abort();

 private:
  void serve();

  FileDescriptor device_;
  const std::string folder_;
  FileDescriptor wake_;  // an eventfd: the server is to end
  std::thread server_;
};

}  // namespace train::e2e
