// What a run records in its journal, and what a later launcher makes of it: the records and the
// fold over them. Pure; lib/storage/journal stores the records. Workers of an attempt that has
// begun but not ended may still run: the new launcher looks for them.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/failure_policy.h"
#include "launcher/core/ingest_history.h"
#include "launcher/core/run_events.h"
#include "launcher/core/setup_history.h"

namespace train {

// ---- records, as the journal stores them

boost::json::object record_of(const StateChanged& change);
boost::json::object record_of(const AttemptBegun& begun);
boost::json::object record_of(const IngestChanged& changed);
/// `cause`: as the user reads it.
boost::json::object record_of(const AttemptEnded& ended, const std::string& cause);
boost::json::object record_of(const RunEnded& ended);
boost::json::object record_of(const StragglerChanged& change);
boost::json::object record_of(const NodeStateChanged& change);
/// `report_seq`: of the report that the checkpoint came with.
boost::json::object checkpoint_record(Attempt attempt, std::uint64_t checkpoint_seq,
                                      std::uint64_t report_seq, const CheckpointInfo& checkpoint);

/// Return the seconds of each use that has any.
boost::json::object json_of(const TimeAccounts& time);
/// Return the member worker_seconds of a record, or of the file goodput.json of an attempt.
TimeAccounts time_in(const boost::json::object& event);
/// Return what the time of a run's workers was used for: as run.json says, which is written at the
/// end, else as the newest attempt's goodput.json does. Either may be empty.
TimeAccounts run_time_in(const boost::json::object& run_json, const boost::json::object& note);

/// A node that was found while the run went on.
boost::json::object node_found_record(NodeId node, const std::string& address);

// ---- their fold

struct PastAttempt {
  Attempt id;
  int world_size = 0;
  int nnodes = 0;
  std::string began, ended;  // RFC 3339; ended: empty while it may live
  bool failed = false;
  std::string cause;
  // Of its newest committed checkpoint: the report that it came with (0: there is none, or the
  // journal does not say), and when it was committed.
  std::uint64_t checkpoint_report = 0;
  std::string checkpoint_at = {};
  TimeAccounts time = {};  // what the time of its workers was used for; zero while it may live
};

class RunHistory {
 public:
  explicit RunHistory(const FailureConfig& failure, bool elastic = false)
      : config_(failure), elastic_(elastic), policy_(failure, elastic) {}

  /// Take in the journal's next record, with its launcher's generation and time. Unknown records
  /// and missing members are skipped: another version of train-run may have written them.
  void add(Generation generation, const std::string& time, const boost::json::object& event);
  /// Somebody starts the run by hand: if it was given up or stopped, it is to go on, with full
  /// budgets. A launcher's generation_taken says so ("by_hand"), for the case that it dies before
  /// it has begun an attempt.
  void started_by_hand();
  void start_afresh();
  /// Number the nodes of what is remembered by their places in cluster.nodes, which may have
  /// changed since the newest launcher began. Of a node that is no longer there, only its place
  /// among the ranks is remembered. The living attempt's placement stays as it was.
  void number_nodes_by(const std::vector<std::string>& cluster_nodes);

  /// Take in the newest checkpoint on disk. If its launcher died before it could write the record,
  /// return it, for the journal.
  std::optional<boost::json::object> add_found(const std::string& time, Attempt attempt,
                                               std::uint64_t checkpoint_seq,
                                               const CheckpointInfo& checkpoint);

  const std::vector<PastAttempt>& attempts() const { return attempts_; }
  Attempt next_attempt() const { return next_attempt_; }
  int restarts() const { return restarts_; }
  /// Return the attempt whose workers were told to start and that has no known end.
  const std::optional<LivingAttempt>& living() const { return living_; }
  /// Return cluster.nodes of the launcher that began that attempt, which numbers the nodes of its
  /// placement. None if the journal does not say.
  const std::optional<std::vector<std::string>>& nodes_of_living() const { return begun_on_; }
  /// Return whether each node of that attempt is at the same place in `cluster_nodes`. True if the
  /// journal does not say.
  bool living_is_on(const std::vector<std::string>& cluster_nodes) const;
  /// Return the nodes for a launcher that finds them, `listed` now: those of the living attempt
  /// keep their places, whether they are listed or not.
  std::vector<std::string> with_nodes_of_living(const std::vector<std::string>& listed) const;
  /// Return what the time of the run's workers was used for, until its newest attempt ended.
  const TimeAccounts& worker_time() const { return time_; }
  /// Return when the newest attempt ended (RFC 3339), if the run did not end then, and the next has
  /// not begun. Until that begins, its workers are down. Else empty.
  const std::string& down_since() const { return down_since_; }
  /// Return whether every rank had ended with 0 or a stop condition was met, so that nothing is
  /// left to train.
  bool finished() const { return ended_ && ended_->outcome == RunState::Finished; }
  /// Return how the run ended, if its launcher died before it recorded the run's end, or nothing is
  /// left to train.
  const std::optional<RunEnded>& ended() const { return ended_; }
  /// Return the placement of the newest attempt.
  const Placement& placed() const { return placed_; }
  /// Return whether the run ended last with workers that wait for another run.
  bool workers_stay() const { return workers_stay_; }
  const IngestHistory& ingest() const { return ingest_; }
  const SetupHistory& setup() const { return setup_; }
  /// Return what to remember of the failures since somebody last started this run by hand.
  const FailureMemory& failures() const { return policy_.memory(); }

 private:
  void attempt_began(Generation generation, const std::string& time,
                     const boost::json::object& event);
  void attempt_ended(const std::string& time, const boost::json::object& event);
  void checkpoint_committed(const std::string& time, const boost::json::object& event);

  FailureConfig config_;
  bool elastic_;
  FailurePolicy policy_;
  IngestHistory ingest_;
  SetupHistory setup_;
  std::vector<PastAttempt> attempts_;
  Attempt next_attempt_{0};
  int restarts_ = 0;
  std::uint64_t newest_checkpoint_ = 0;  // its number
  Placement placed_;
  TimeAccounts time_;
  std::string down_since_;
  std::optional<RunEnded> ended_;
  bool workers_stay_ = false;
  std::optional<LivingAttempt> begun_;  // perhaps without workers yet
  std::optional<LivingAttempt> living_;
  std::optional<std::vector<std::string>> nodes_;     // cluster.nodes of the newest launcher so far
  std::optional<std::vector<std::string>> begun_on_;  // of the one that began the newest attempt
};

}  // namespace train
