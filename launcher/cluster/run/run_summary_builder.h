// Collects what the end of the run reports: attempts with their causes, the root cause,
// checkpoints, results, warnings. The driver adds to it as things happen, and asks for the summary.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/checkpoints/checkpoint_manager.h"
#include "launcher/cluster/run/run_log.h"
#include "launcher/core/ingest_history.h"
#include "launcher/core/run_events.h"
#include "launcher/core/run_history.h"
#include "launcher/report/summary.h"

namespace train {

class RunSummaryBuilder {
 public:
  /// `on_disk` calls the functions that it is given, in order, on a thread that storage may block.
  RunSummaryBuilder(const JobSpec& spec, RunRecord& record, const Clock& clock,
                    std::function<void(std::function<void()>)> on_disk, const RunLog& log);

  void warn(const std::string& text);
  void refuse(const Error& error) { refused_ = error; }
  /// The run's setup has failed, so that no worker starts. `lines`: the last ones that it wrote.
  void setup_failed(const std::string& cause, std::vector<std::string> lines);
  /// Return whether another launcher has taken over the run, which continues.
  bool replaced() const { return refused_ && refused_->code == Errc::Fenced; }
  void placed(const Placement& placement) { placement_ = placement; }
  void attempt_started(Attempt attempt, int world_size);
  /// Record the rank's exit, and write its error.json if it failed.
  void rank_exited(const std::string& node, const RankExited& event);
  /// Record the attempt's end, and write its cause.json if it failed.
  void attempt_ended(const AttemptEnded& ended);
  void checkpoint_committed(const CheckpointManager::Outcome& outcome, Attempt attempt,
                            std::uint64_t report_seq);
  void checkpoints_found(const CheckpointManager& manager);
  void best_is(std::optional<KeptCheckpoint> best) { best_ = std::move(best); }
  void reported(const ReportRecord& newest) { newest_report_ = newest; }
  void ingest_changed(const IngestChanged& changed) { ingest_.add(record_of(changed)); }
  void data_bound(std::optional<DataVerdict> verdict) { data_ = std::move(verdict); }
  /// Keep what a rank's program passed to set_result(), if it is JSON.
  void result(Rank rank, const std::string& json);

  int world_size() const { return placement_.world_size; }
  /// Return how long the run has lasted.
  Duration duration() const { return clock_.now() - began_; }
  std::optional<CheckpointSummary> latest_checkpoint() const;
  int nnodes() const { return static_cast<int>(placement_.nodes.size()); }
  const std::string& last_cause() const { return last_cause_; }
  /// Return the attempt's ranks that failed, the root cause first. Call it after attempt_ended().
  ExceptionNews exception_of(Attempt attempt) const;
  bool last_failed() const { return last_failed_; }
  /// `time`: of all workers of the run.
  RunSummary summary(const RunEnded& ended, const Metrics& last_metrics,
                     const TimeAccounts& time) const;

 private:
  std::string program_of(Rank rank) const;
  void write(const std::string& folder, const std::string& path, std::string text);
  RootCause root_cause(const AttemptEnded& ended) const;
  TimePoint moment_of(std::chrono::system_clock::time_point wall) const;

  const JobSpec& spec_;
  RunRecord& record_;
  const Clock& clock_;
  const std::function<void(std::function<void()>)> on_disk_;
  const RunLog& log_;
  TimePoint began_;  // the run, perhaps under an earlier launcher
  std::chrono::system_clock::time_point began_wall_;
  Placement placement_;
  std::vector<AttemptSummary> attempts_;
  TimePoint attempt_began_;
  bool setup_failed_ = false;
  bool began_attempt_ = false;  // here, not under an earlier launcher
  std::map<std::pair<Attempt, Rank>, WorkerFailure> failures_;
  std::optional<RootCause> root_;
  std::string last_cause_;
  bool last_failed_ = false;
  std::optional<KeptCheckpoint> best_, latest_;
  std::optional<std::pair<Attempt, std::uint64_t>> checkpoint_report_;
  TimePoint checkpoint_at_;
  std::optional<ReportRecord> newest_report_;
  std::map<Rank, std::string> results_;
  std::optional<DataVerdict> data_;
  IngestHistory ingest_;
  std::vector<std::string> warnings_;
  std::optional<Error> refused_;
};

}  // namespace train
