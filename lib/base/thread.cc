#include "lib/base/thread.h"

#include <pthread.h>
#include <signal.h>

#include <system_error>
#include <utility>

namespace train {

std::thread start_thread(const char* name, std::function<void()> run) {
  struct SignalsMasked {
    SignalsMasked() {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~SignalsMasked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before{};
  };
  const SignalsMasked masked;  // a thread inherits the mask of the thread that starts it
  return std::thread([name, run = std::move(run)] {
    pthread_setname_np(pthread_self(), name);
    run();
  });
}

Result<Unit> start_unjoined_thread(const char* name, std::function<void()> run) {
  try {
    start_thread(name, std::move(run)).detach();
  } catch (const std::system_error& e) {
    return system_error(e.code().value(), "starting a thread");
  }
  return Unit{};
}

}  // namespace train
