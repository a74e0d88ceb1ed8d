#include "launcher/cluster/notify/run_notifier.h"

#include "lib/base/host.h"

namespace train {

RunNotifier::RunNotifier(std::vector<NotifyTarget> targets, EventNotifier::Options options, Run run,
                         const RunSummaryBuilder& summary, const Clock& clock,
                         std::function<Metrics()> newest_metrics)
    : run_(std::move(run)),
      summary_(summary),
      clock_(clock),
      newest_metrics_(std::move(newest_metrics)),
      notifier_(std::move(targets), std::move(options)) {}

void RunNotifier::set_run(Notification& n) const {
  n.at = clock_.wall();
  n.run_id = run_.identity.own_id();
  n.run = run_.identity.name;
  n.path = run_.identity.location;
  n.host = host_name();
}

Notification RunNotifier::facts(NotifiedEvent event, Attempt attempt) const {
  Notification n;
  n.event = event;
  set_run(n);
  n.attempt = attempt.value;
  n.world_size = summary_.world_size();
  n.nnodes = summary_.nnodes();
  n.duration = summary_.duration();
  n.checkpoint = summary_.latest_checkpoint();
  n.metrics = newest_metrics_();
  return n;
}

void RunNotifier::state_changed(const StateChanged& change) {
  if (change.to != RunState::Running) return;
  const bool first = !std::exchange(has_run_, true) && !run_.continues;
  if (change.trigger == RunTrigger::GroupFound) return;  // an earlier launcher has told of it
  const auto event = first ? NotifiedEvent::Started : NotifiedEvent::Restarted;
  if (!notifier_.wants(event)) return;
  Notification n = facts(event, change.attempt);
  if (!first) n.cause = summary_.last_cause();
  notifier_.notify(std::move(n));
}

void RunNotifier::hang_found(const HangFound& hang) {
  if (!notifier_.wants(NotifiedEvent::Hung)) return;
  Notification n = facts(NotifiedEvent::Hung, hang.attempt);
  n.cause = hang.text;
  n.rank = hang.rank.value;
  n.node = hang.node;
  notifier_.notify(std::move(n));
}

void RunNotifier::checkpoint_committed(Attempt attempt) {
  if (notifier_.wants(NotifiedEvent::Checkpoint))
    notifier_.notify(facts(NotifiedEvent::Checkpoint, attempt));
}

void RunNotifier::end(const RunSummary& summary) {
  if (summary.outcome == Outcome::Replaced) return;  // the run goes on
  Notification n = end_notification(summary);
  set_run(n);
  notifier_.notify(std::move(n));
}

}  // namespace train
