// Performs the validations that the controller decides on. It asks a supervisor for one, records
// the result before the controller hears of it, and tells workers which checkpoints there are. Runs
// on the driver's thread; files are the disk thread's.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <set>
#include <vector>

#include "launcher/cluster/checkpoints/checkpoint_manager.h"
#include "launcher/cluster/checkpoints/checkpoint_observer.h"
#include "launcher/cluster/links/node_links.h"
#include "launcher/core/run_controller.h"
#include "launcher/report/user_messages.h"
#include "lib/net/scope.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// Return the order for a supervisor. `validation`: the job's; it may have a command of its own.
RunValidation validation_message(const ValidationConfig& validation, const Validate& action);
/// Return the answer to a worker that asked for checkpoints. `unvalidated`: by number. If there are
/// very many checkpoints, only the newest are in the answer.
ReportedCheckpoints reported_message(const AskCheckpoints& ask,
                                     const std::vector<KnownCheckpoint>& known,
                                     const std::set<std::uint64_t>& unvalidated);
/// Return what the end of a validation process means: its result, or why there is none.
ValidationRecord validation_record(const ValidationEnded& ended, const std::string& now);

class ValidationExecutor {
 public:
  /// `folder`: the run's. The controller says which checkpoints are still to be validated.
  ValidationExecutor(CheckpointContext context, Scope& scope, RunFolder folder,
                     const RunController& controller, NodeLinks& links, UserMessages& messages)
      : context_(std::move(context)),
        scope_(scope),
        folder_(std::move(folder)),
        controller_(controller),
        links_(links),
        messages_(messages) {}

  /// Take in the end of a validation. It may come again, and also from a supervisor of an older
  /// attempt.
  void ended(Attempt attempt, ValidationEnded message);
  void asked(NodeId node, Attempt attempt, const AskCheckpoints& ask);
  /// The controller has taken in an event: answer the workers that need not wait any longer.
  void look_again();
  /// Return for the keeper all checkpoints that the controller has still to see validated.
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

  CheckpointContext context_;
  Scope& scope_;
  const RunFolder folder_;
  const RunController& controller_;
  NodeLinks& links_;
  UserMessages& messages_;
  std::set<std::uint64_t> writing_;  // whose end has come, and is not on disk yet
  std::vector<Waiting> waiting_;
};

}  // namespace train
