// Who is told what becomes of a run's checkpoints, so that it is remembered, summed up and shown
// (launcher/cluster/run/run_news.h). On the driver's thread.
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
  /// Its result is on disk. `log`: the file with what a validation that failed printed; or empty.
  virtual void validated(const ValidationRecord& record,
                         const CheckpointManager::Validated& outcome, const std::string& log) = 0;
  virtual void warn(const std::string& text) = 0;
};

}  // namespace train
