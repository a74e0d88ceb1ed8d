// What a login by ssh that did not reach a traind has said: why, what the user can do, and whether
// to try again. Pure. The text comes from the other host, too.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace train {

struct SshEnd {
  std::string host;            // as the job names it
  std::string arguments;       // of ssh, if the user logs in there by hand: " -p 2222 me@gpu-1"
  std::string program;         // traind's path there
  std::optional<int> code;     // ssh's exit code; nothing: a signal or we ended it
  std::string_view said;       // on stderr
  bool timed_out = false;      // it took too long
  bool other_program = false;  // what answered is no traind
};

struct SshFailure {
  Error error;
  bool final = false;   // another try would end in the same way
  bool silent = false;  // the host did not answer at all
};

SshFailure explain_ssh(const SshEnd& end);

/// Return the last line that is not empty, without what could harm a terminal; "" for none.
std::string last_line_of(std::string_view said);

}  // namespace train
