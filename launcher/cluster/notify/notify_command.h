// Runs a user's program that is told of an event. No shell is started; the facts are on its
// standard input and in its environment.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

struct NotifyCommand {
  std::vector<std::string> argv =
      {};                   // a name without '/' is looked up in the PATH of `environment`
  std::string folder = {};  // where it starts
  std::map<std::string, std::string> environment = {};
  std::string input = {};
};

/// Run the program until it ends, until `deadline()` has passed, or is moved to an earlier time
/// that has passed; then kill it and its process group. Success: it has ended with 0. Otherwise the
/// error says how it ended, with the last line that it wrote. Blocks; any thread may call.
Result<Unit> run_notify_command(const NotifyCommand& command,
                                const std::function<TimePoint()>& deadline);

}  // namespace train
