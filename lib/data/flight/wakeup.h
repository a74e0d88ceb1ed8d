// Lets one thread wake another that waits with poll(2).
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train::data {

class Wakeup {
 public:
  static Result<Wakeup> make() {
    FileDescriptor event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (event.get() < 0) return system_error(errno, "making an event");
    return Wakeup(std::move(event));
  }
  /// Return what is ready to read from wake() to clear().
  int descriptor() const { return event_.get(); }
  void wake() const { (void)::eventfd_write(event_.get(), 1); }
  void clear() const {
    eventfd_t count = 0;
    (void)::eventfd_read(event_.get(), &count);
  }

 private:
  explicit Wakeup(FileDescriptor event) : event_(std::move(event)) {}
  FileDescriptor event_;
};

}  // namespace train::data
