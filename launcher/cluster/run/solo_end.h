// How the run of a program that runs alone has ended. Pure.
#pragma once

#include <optional>

#include "launcher/report/failure_text.h"

namespace train {

struct SoloEnd {
  bool started = true;                    // the program could be executed
  bool signaled = false;                  // it was ended by a signal
  int status = 0;                         // its exit code, or the signal
  bool after_our_signal = false;          // train-run had sent it SIGTERM by then
  std::optional<Outcome> asked_for = {};  // what the end is that somebody has asked for, if anybody
};

/// A program that ends well, or by a stop that was asked for, has the end that was asked for. By
/// itself it has succeeded if it ended well, was interrupted if Ctrl-C ended it, and has failed
/// otherwise.
Outcome outcome_of(const SoloEnd& end);

}  // namespace train
