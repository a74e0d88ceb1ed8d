// Passes on the outcome of checkpoints: the journal records it, the summary counts it, the screen
// shows it, and whoever asked to be notified is.
#pragma once

#include "launcher/cluster/checkpoints/checkpoint_observer.h"
#include "launcher/cluster/notify/run_notifier.h"
#include "launcher/cluster/run/journal_writer.h"
#include "launcher/cluster/run/run_screen.h"
#include "launcher/cluster/run/run_summary_builder.h"

namespace train {

class RunNews final : public CheckpointObserver {
 public:
  /// `scored`: checkpoints have a score.
  RunNews(JournalWriter& journal, RunSummaryBuilder& summary, RunScreen& screen,
          RunNotifier& notifier, bool scored)
      : journal_(journal),
        summary_(summary),
        screen_(screen),
        notifier_(notifier),
        scored_(scored) {}

  void committed(const Commit& action, const CheckpointManager::Outcome& outcome) override;
  void validated(const ValidationRecord& record, const CheckpointManager::Validated& outcome,
                 const std::string& log) override;

 private:
  JournalWriter& journal_;
  RunSummaryBuilder& summary_;
  RunScreen& screen_;
  RunNotifier& notifier_;
  const bool scored_;
};

}  // namespace train
