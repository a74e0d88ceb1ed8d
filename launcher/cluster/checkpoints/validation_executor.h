// Performs the validations that the controller decides on. It asks a supervisor for each one,
// records the result before the controller is told about it, and tells workers which checkpoints
// exist. Runs on the driver's thread; the disk thread handles files.
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

/// Return the order for a supervisor. `validation`: the job's, which may have its own command.
RunValidation validation_message(const ValidationConfig& validation, const Validate& action);
/// Return the answer to a worker that asked for checkpoints. `unvalidated`: numbers of checkpoints.
/// If there are very many checkpoints, the answer contains only the newest.
ReportedCheckpoints reported_message(const AskCheckpoints& ask,
                                     const std::vector<KnownCheckpoint>& known,
                                     const std::set<std::uint64_t>& unvalidated);
/// Return the outcome of a validation process that has ended: its result, or why there is none.
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

  /// Handle the end of a validation. The message may arrive again, even from a supervisor of an
  /// older attempt.
  void ended(Attempt attempt, ValidationEnded message);
  void asked(NodeId node, Attempt attempt, const AskCheckpoints& ask);
  /// After the controller has handled an event: answer the workers that need not wait any longer.
  void look_again();
  /// Return the checkpoints to keep for their validation: those that the controller still wants
  /// validated, except those whose result is being written.
  CheckpointManager::Pinned pinned() const;

 private:
  struct Waiting {
    NodeId node;
    Attempt attempt;
    AskCheckpoints ask;
    std::set<std::uint64_t> until;  // wait until these are validated
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
  std::set<std::uint64_t> writing_;  // those that have ended, but have no result on disk yet
  std::vector<Waiting> waiting_;
};

}  // namespace train
