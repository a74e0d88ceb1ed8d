// Performs what the controller decides about the validation of checkpoints: asks a supervisor for
// one, writes down what came of it before the controller hears of that, and tells workers which
// checkpoints there are. On the driver's thread; files are the disk thread's.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <set>
#include <vector>

#include "launcher/cluster/checkpoints/checkpoint_manager.h"
#include "launcher/cluster/checkpoints/checkpoint_observer.h"
#include "launcher/core/run_events.h"
#include "lib/net/scope.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// `validation`: of the job. A command of its own where it has one.
RunValidation validation_message(const ValidationConfig& validation, const Validate& action);
/// What a worker that asked is told. `unvalidated`: by number. Of very many the newest are left.
ReportedCheckpoints reported_message(const AskCheckpoints& ask,
                                     const std::vector<KnownCheckpoint>& known,
                                     const std::set<std::uint64_t>& unvalidated);
/// What the end of a process means: its result read, or why it is none.
ValidationRecord validation_record(const ValidationEnded& ended, const std::string& now);

class ValidationExecutor {
 public:
  struct Uses {
    Scope& scope;
    asio::thread_pool& disk;
    CheckpointManager& keeper;  // on the disk thread
    CheckpointObserver& observer;
    const Clock& clock;
    RunFolder folder;
    std::function<std::vector<std::uint64_t>()>
        unvalidated;  // that the controller has still to see
    std::function<void(NodeId, const Frame&)> send;
    std::function<void(const RunEvent&)> feed;
  };
  explicit ValidationExecutor(Uses uses) : uses_(std::move(uses)) {}

  /// May come again, also from a supervisor of an older attempt.
  void ended(Attempt attempt, ValidationEnded message);
  void asked(NodeId node, Attempt attempt, const AskCheckpoints& ask);
  /// The controller has heard something: who waited may be answered.
  void look_again();
  /// For the keeper: all that the controller has still to see validated.
  CheckpointManager::Pinned pinned() const;

 private:
  struct Waiting {
    NodeId node;
    Attempt attempt;
    AskCheckpoints ask;
    std::set<std::uint64_t> until;  // these are validated
  };
  asio::awaitable<void> write_down(Attempt attempt, ValidationEnded message);
  asio::awaitable<void> answer(Waiting to);
  std::set<std::uint64_t> unvalidated() const;

  Uses uses_;
  std::set<std::uint64_t> writing_;  // whose end has come, and is not on disk yet
  std::vector<Waiting> waiting_;
};

}  // namespace train
