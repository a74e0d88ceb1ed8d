// The interface that hears what becomes of a run's checkpoints, in order to remember, sum up and
// show it (launcher/cluster/run/run_news.h). It is called on the driver's thread.
#pragma once

#include <string>

#include "launcher/cluster/checkpoints/checkpoint_manager.h"
#include "launcher/core/run_events.h"
#include "lib/storage/validation_record.h"

namespace train {

class CheckpointObserver {
 public:
  virtual ~CheckpointObserver() = default;
  virtual void committed(const Commit& action, const CheckpointManager::Outcome& outcome) = 0;
  /// A validation's result is on disk. `log`: the file with the output of a validation that failed,
  /// or empty.
  virtual void validated(const ValidationRecord& record,
                         const CheckpointManager::Validated& outcome, const std::string& log) = 0;
  virtual void warn(const std::string& text) = 0;
};

}  // namespace train
