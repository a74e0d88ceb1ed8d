// The signals that ask a program to stop, as something to poll.
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/base/file_descriptor.h"

namespace train {

/// They are blocked from here on.
class StopSignals {
 public:
  StopSignals() : set_(stop_set()) {
    ::sigprocmask(SIG_BLOCK, &set_, nullptr);
    file_.reset(::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  int fd() const { return file_.get(); }
  /// Return the next signal that has come; 0: none.
  int take() const {
    signalfd_siginfo info{};
    const ssize_t count = ::read(file_.get(), &info, sizeof info);
    return count == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }
  /// End this process as the signal does by default, so that a shell sees it.
  static void end_by(int number) {
    ::signal(number, SIG_DFL);
    ::raise(number);
    const sigset_t set = stop_set();
    ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  }

 private:
  static sigset_t stop_set() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) ::sigaddset(&set, number);
    return set;
  }
  const sigset_t set_;
  FileDescriptor file_{-1};
};

}  // namespace train
