#include "daemon/supervisor/group_messages.h"

namespace train {

GroupStart to_event(const StartWorkers& message) {
  GroupStart event;
  for (const WorkerRanks& worker : message.workers) event.ranks.push_back(Rank{worker.rank});
  return event;
}

GroupStop to_event(const StopWorkers& message) {
  return {milliseconds(message.grace_ms), message.reason};
}

GroupRelease to_event(const ReleaseAttempt& message) { return {message.keep_workers}; }

WorkersStarted message_of(const TellStarted& action, std::int32_t from_standby) {
  WorkersStarted message;
  for (const auto& [rank, pid] : action.pids) message.workers.push_back({rank.value, pid});
  message.from_standby = from_standby;
  return message;
}

StartFailed message_of(const TellStartFailed& action) {
  return start_failed(action.rank, action.error);
}

StartFailed start_failed(Rank rank, const Error& error) {
  return {rank.value, std::string(to_string(error.code)), error.message, error.hint};
}

WorkerEnd end_of(const TellExited& action, std::chrono::system_clock::time_point reaped,
                 std::uint64_t last_report_seq) {
  const auto since_1970 = reaped.time_since_epoch();
  return {.signaled = action.status.signaled,
          .status = action.status.status,
          .core_dumped = action.status.core_dumped,
          .stop_requested = action.stop_requested,
          .wall_us = std::chrono::duration_cast<std::chrono::microseconds>(since_1970).count(),
          .last_report_seq = last_report_seq};
}

AttemptSnapshot snapshot_of(const WorkerGroup& group, bool prepared, std::uint32_t master_port,
                            std::uint64_t resolved_checkpoint,
                            const RequestCheckpoint& checkpoint_request,
                            const std::function<LivingWorker(Rank)>& worker) {
  const GroupPhase phase = group.began() ? group.phase() : GroupPhase::Prepared;
  AttemptSnapshot snapshot{prepared ? std::string(to_string(phase)) : "spawned",
                           master_port,
                           {},
                           resolved_checkpoint,
                           checkpoint_request};
  for (const auto& [rank, pid] : group.alive()) {
    LivingWorker living = worker(rank);
    living.rank = rank.value;
    living.pid = pid;
    snapshot.alive.push_back(living);
  }
  return snapshot;
}

}  // namespace train
