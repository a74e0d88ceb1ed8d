#include "tests/sim/run_folder.h"

#include "launcher/core/run_history.h"

namespace train::sim {

RunStart start_from(SimFolder& folder, const Plan& plan, Generation generation) {
  RunHistory history(plan.spec.run_config.failure_config,
                     plan.spec.scaling_config.num_workers.elastic());
  for (const SimFolder::Record& record : folder.journal)
    history.add(record.generation, "", record.event);
  if (!folder.checkpoints.empty()) {
    const SimFolder::Committed& newest = folder.checkpoints.back();
    if (auto record = history.add_found("", newest.attempt, newest.checkpoint_seq, newest.info))
      folder.journal.push_back({generation, std::move(*record)});
  }
  RunStart start;
  start.expected_nodes = static_cast<std::size_t>(plan.nodes);
  start.first_attempt = history.next_attempt();
  start.failures = history.failures();
  start.placed = history.placed();
  start.living = history.living();
  start.ended = history.ended();  // the next launcher is not started by hand
  if (!history.attempts().empty()) start.restarts = history.restarts() + (start.living ? 0 : 1);
  for (const SimFolder::Committed& one : folder.checkpoints) {
    start.checkpoint = one.info;
    start.last_checkpoint_number = one.info.number;
    if (!folder.validated.contains(one.info.number)) start.unvalidated.push_back(one.info);
    if (!start.living || start.living->id != one.attempt) continue;
    start.living->resolved_seq = one.checkpoint_seq;
    start.living->resolved_path = one.info.path;
  }
  return start;
}

}  // namespace train::sim
