// Whether somebody wants a train-run that has child runs to stop them: by a signal, or by the file
// that `train-run stop` makes in its folder.
#pragma once

#include <optional>
#include <string>

#include "lib/base/stop_signals.h"
#include "lib/storage/run_lock.h"

namespace train {

class StopWishes {
 public:
  /// Take signals from here on. `request`: the path of that file. `self`: the owner of the folder
  /// for whom a request has to be.
  StopWishes(std::string request, LockHolder self)
      : request_(std::move(request)), self_(std::move(self)) {}

  /// What becomes readable when a signal has come.
  int fd() const { return signals_.fd(); }
  /// Return the exit code for the next signal that has come; none: none has. The third one ends
  /// this process at once.
  std::optional<int> by_signal();
  /// Take the request, if there is one. Return the exit code for it; none if it was for an earlier
  /// owner.
  std::optional<int> by_file() const;

 private:
  const std::string request_;
  const LockHolder self_;
  const StopSignals signals_;
  int signals_taken_ = 0;
};

}  // namespace train
