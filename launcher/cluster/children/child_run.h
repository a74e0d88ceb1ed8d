// A train-run that another one has started, for a trial of a sweep, a replica group or a probe: a
// child process with a driver's socket (docs/driver.md). It is in a process group of its own, so
// that Ctrl-C is for its parent alone; when the parent dies, the socket closes, and the child's run
// stops in good order. Nothing blocks.
#pragma once

#include <sys/types.h>

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/children/json_lines.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

class ChildRun {
 public:
  /// Start train-run. `words`: the program first; each "{FD}" stands for the driver's socket.
  /// `variables`: its environment. `output`: where its output goes; −1: nowhere.
  static Result<ChildRun> start(std::vector<std::string> words, std::vector<std::string> variables,
                                int output = -1);

  /// What to poll for reading; −1: nothing comes any more.
  int socket() const { return socket_.get(); }
  int errors() const { return errors_.get(); }
  int process() const { return process_.get(); }

  /// Return the events that have come. A line that is none is passed over.
  std::vector<boost::json::object> take_events();
  /// Ask it to stop in good order: the run succeeds.
  void ask_to_stop();
  /// Tell it, of a run with a pace, that we are done with the attempt's first `rounds` rounds.
  /// Return whether it takes that now.
  bool acknowledge(std::uint64_t attempt, std::uint64_t rounds);
  void send_signal(int number) const;
  /// From now on, write what it says on stderr to ours, too.
  void pass_errors_on() { passes_errors_on_ = true; }

  struct End {
    int code = 0;         // 128 + the signal that killed it
    bool killed = false;  // by a signal: the run may not have come to its end
  };
  /// Return how it has ended; nothing while it runs. All its events are there then.
  std::optional<End> ended();
  /// Return what it has said of errors, in short.
  std::string said();

 private:
  ChildRun() = default;
  void read_errors();

  pid_t pid_ = -1;
  FileDescriptor socket_, errors_, process_;
  JsonLines lines_{80u << 20};  // exit.json, which `end` repeats, has a limit of 64 MiB
  std::string error_text_;
  bool passes_errors_on_ = false;
};

}  // namespace train
