// Writes train-run's own log, train-run.log in the run's folder. It contains everything that the
// controller is told and answers, for people who ask afterwards why a run did what it did. The
// screen and the summary tell the essentials; the log tells the rest.
#pragma once

#include <functional>
#include <string>

#include "launcher/core/run_events.h"
#include "lib/observe/log.h"
#include "lib/storage/run_folder.h"

namespace train {

/// Open the log in the run's folder. A background thread writes it, from `level` on: debug, info,
/// warning or error.
Result<Log> open_run_log(const RunFolder& folder, const std::string& run, std::string_view level,
                         LogFormat format);

class RunLog {
 public:
  using NameOfNode = std::function<std::string(NodeId)>;

  RunLog(Log log, NameOfNode name) : log_(std::move(log)), name_(std::move(name)) {}

  /// Log what has happened: at warn or error if a user should look at it, at debug if it is
  /// frequent.
  void event(const RunEvent& event) const;
  /// Log what the controller does about it.
  void action(const RunAction& action) const;
  /// Log what the user was warned of.
  void warning(const std::string& text) const { log_.warn(text); }
  /// Log nothing from now on. Return a function that writes the pending lines; it blocks for as
  /// long as the disk does.
  std::function<void()> close();

 private:
  Log log_;
  NameOfNode name_;
};

}  // namespace train
