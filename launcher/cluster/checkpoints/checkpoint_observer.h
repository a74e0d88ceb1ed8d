// The interface that is told the outcome of a run's checkpoints, to record, count and show it
// (launcher/cluster/run/run_news.h). It is called on the driver's thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <string>

#include "launcher/cluster/checkpoints/checkpoint_manager.h"
#include "launcher/cluster/links/event_sink.h"
#include "lib/base/time.h"
#include "lib/storage/validation_record.h"

namespace train {

namespace asio = boost::asio;

class CheckpointObserver {
 public:
  virtual ~CheckpointObserver() = default;
  virtual void committed(const Commit& action, const CheckpointManager::Outcome& outcome) = 0;
  /// Handle a validation's result, which is on disk. `log`: the file with the output of a failed
  /// validation, or empty.
  virtual void validated(const ValidationRecord& record,
                         const CheckpointManager::Validated& outcome, const std::string& log) = 0;
};

/// What the classes that handle a run's checkpoints have in common.
struct CheckpointContext {
  asio::any_io_executor executor;  // the driver's
  asio::thread_pool& disk;
  CheckpointManager& manager;  // on the disk thread
  CheckpointObserver& observer;
  EventSink& events;
  const Clock& clock;
};

}  // namespace train
