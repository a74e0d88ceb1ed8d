// Turns what happens to the run into notifications. The driver's thread calls it.
#pragma once

#include <functional>

#include "launcher/cluster/links/run_identity.h"
#include "launcher/cluster/notify/event_notifier.h"
#include "launcher/cluster/run/run_summary_builder.h"
#include "launcher/core/run_events.h"

namespace train {

class RunNotifier {
 public:
  struct Run {
    RunIdentity identity;
    /// Another launcher of this run has died, and this one replaces it.
    bool continues = false;
  };
  /// `newest_metrics`: returns those of rank 0. The summary outlives this object.
  RunNotifier(std::vector<NotifyTarget> targets, EventNotifier::Options options, Run run,
              const RunSummaryBuilder& summary, const Clock& clock,
              std::function<Metrics()> newest_metrics);

  void state_changed(const StateChanged& change);
  void hang_found(const HangFound& hang);
  void checkpoint_committed(Attempt attempt);
  /// Tell of the run's end. Call nothing afterwards but finish().
  void end(const RunSummary& summary);
  /// Wait until all is delivered. Blocks for at most kNotifyEndMax; any thread may call.
  void finish() { notifier_.finish(kNotifyEndMax); }

 private:
  void set_run(Notification& n) const;
  Notification facts(NotifiedEvent event, Attempt attempt) const;

  const Run run_;
  const RunSummaryBuilder& summary_;
  const Clock& clock_;
  const std::function<Metrics()> newest_metrics_;
  bool has_run_ = false;  // a group of workers has
  EventNotifier notifier_;
};

}  // namespace train
