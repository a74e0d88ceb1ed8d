// The programs of run_config.callbacks: each runs beside the controller, reads the run's events
// from a file (event_file.h), and is told by the end of its standard input that no more follow.
// None is waited for before the run's end; one that dies is warned of, and started again only with
// the next launcher of the run. It keeps how far it has come in a state file of its own.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/storage/run_folder.h"

namespace train {

/// How long programs may still handle what has happened once the run has ended; then they are asked
/// to end, and killed kCallbackStopMax later.
inline constexpr Duration kCallbackEndMax = seconds(30);
inline constexpr Duration kCallbackStopMax = seconds(2);
/// The longest log of what a program prints; the rest is lost.
inline constexpr std::uint64_t kCallbackLogBytesMax = 64u << 20;

class CallbackPrograms {
 public:
  struct Options {
    std::vector<std::vector<std::string>> commands = {};
    std::string working_dir = {};
    std::map<std::string, std::string> environment = {};
    RunFolder folder;
    std::function<void(const std::string&)> say = {};  // a warning; called on threads of ours
  };
  explicit CallbackPrograms(Options options);
  ~CallbackPrograms();  // kills what is left
  CallbackPrograms(const CallbackPrograms&) = delete;
  CallbackPrograms& operator=(const CallbackPrograms&) = delete;

  /// Start them. The file of events must be there.
  void begin();
  /// Tell them that no more follows, and wait until they have ended. Blocks.
  void finish();

 private:
  class Program;
  const Options options_;
  std::vector<std::unique_ptr<Program>> programs_;
};

/// Return the name of a command's files in the run's folder: 16 hexadecimal digits.
std::string callback_id(const std::vector<std::string>& command);

}  // namespace train
