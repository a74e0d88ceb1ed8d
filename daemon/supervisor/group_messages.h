// Translates between a supervisor's WorkerGroup and the launcher: orders to events, actions to
// messages. Pure; the simulation uses it too.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "daemon/supervisor/core/worker_group.h"
#include "lib/model/worker_end.h"
#include "lib/wire/attempt_messages.h"

namespace train {

GroupStart to_event(const StartWorkers& message);
GroupStop to_event(const StopWorkers& message);
GroupRelease to_event(const ReleaseAttempt& message);

/// `from_standby`: how many of the workers were standby processes.
WorkersStarted message_of(const TellStarted& action, std::int32_t from_standby);
StartFailed message_of(const TellStartFailed& action);
StartFailed start_failed(Rank rank, const Error& error);
/// Return how a worker ended, as far as the group knows. `reaped`: when it was reaped.
WorkerEnd end_of(const TellExited& action, std::chrono::system_clock::time_point reaped,
                 std::uint64_t last_report_seq);

/// Return the state of the group for a launcher that attaches. `prepared`: PrepareAttempt has been
/// received. `worker`: returns what is known of a live worker besides its rank and pid.
AttemptSnapshot snapshot_of(const WorkerGroup& group, bool prepared, std::uint32_t master_port,
                            std::uint64_t resolved_checkpoint,
                            const RequestCheckpoint& checkpoint_request,
                            const std::function<LivingWorker(Rank)>& worker);

}  // namespace train
