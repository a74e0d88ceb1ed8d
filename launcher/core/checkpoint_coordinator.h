// Makes the decisions about the run's checkpoints. It collects the shards of the attempt's next
// checkpoints, orders the commit of complete ones, gives up those that cannot be stored, and
// chooses the committed one that an attempt begins from. One state machine: events in, effects out.
// launcher/cluster stores the files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/checkpoint_tracker.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/run_events.h"

namespace train {

/// The run fails after giving up this many checkpoints in a row for lack of space.
inline constexpr int kWithoutSpaceMax = 3;
inline constexpr Duration kCommitWarnAfter = seconds(60);
/// Once only the commit is left: how long to wait before telling the user, and before giving the
/// commit up if the run was asked to stop immediately.
inline constexpr Duration kStorageTimeout = seconds(1);

class CheckpointCoordinator {
 public:
  /// `newest`: the newest committed checkpoint, or resume_from_checkpoint. `older`: the ones kept
  /// beside it, oldest first; resume_from_checkpoint (number 0) before all others.
  CheckpointCoordinator(const RunConfig& config, std::optional<CheckpointInfo> newest,
                        std::vector<CheckpointInfo> older, std::uint64_t last_number)
      : upload_timeout_(config.checkpoint_config.upload_timeout),
        storage_path_(config.storage_path),
        newest_(std::move(newest)),
        older_(std::move(older)),
        last_number_(last_number) {}

  /// The outcome of a checkpoint, for the supervisor of a rank that asks again, or for all.
  struct Tell {
    CheckpointTracker::Outcome outcome;
    std::optional<Rank> only_for = {};
  };
  struct BeginCommit {
    std::uint64_t checkpoint_seq = 0, number = 0;
    std::vector<StagedShard> shards;
  };
  struct AbandonCommit {
    std::uint64_t checkpoint_seq = 0;
    std::string reason;
  };
  struct OutOfSpace {  // the run must fail
    std::string cause;
  };
  using Effect = std::variant<Tell, BeginCommit, AbandonCommit, OutOfSpace, Note>;
  using Effects = std::vector<Effect>;

  /// The state of the run, as far as effects or their wording depend on it.
  struct Situation {
    RunState state{};
    bool escalated = false;  // the run was asked to stop immediately
    bool quiescing = false;  // ranks were asked to meet at one report
  };

  // ---- of one attempt
  void begin_attempt(Attempt attempt, int world_size);
  /// Take over an attempt that an earlier launcher began.
  void adopt_attempt(const LivingAttempt& living);
  Effects staged(StagedShard shard, TimePoint now);
  /// Record that an earlier launcher resolved all checkpoints up to `checkpoint_seq`, as a
  /// supervisor reports.
  Effects resolved_before(std::uint64_t checkpoint_seq);
  Effects commit_finished(const CommitFinished& event, const Situation& situation);
  /// Begin the next commit if a checkpoint is complete. Call this after every event.
  Effects advance(const Situation& situation, TimePoint now);
  /// Warn about missing shards and a slow commit, and give up a commit that takes too long.
  Effects watch(const Situation& situation, TimePoint now);
  std::optional<TimePoint> next_deadline(RunState state) const;

  bool committing() const { return tracker_.committing(); }
  std::uint64_t resolved() const { return tracker_.resolved(); }
  /// Record that only the commit is left to wait for.
  void await_commit(TimePoint now);
  bool commit_awaited() const { return commit_ && commit_->awaited_since; }
  /// Return whether the user was told that Ctrl-C gives up the commit.
  bool offered_to_give_up() const {
    return commit_ && commit_->wait_said_in == RunState::TearingDown;
  }

  // ---- of the run
  const std::optional<CheckpointInfo>& newest() const { return newest_; }
  /// Record a committed checkpoint, even one that was given up but was committed after all. Return
  /// false if it was already known.
  bool take_committed(const CheckpointInfo& checkpoint, const std::vector<std::uint64_t>& removed);
  /// Forget older checkpoints that have been removed.
  void forget(const std::vector<std::uint64_t>& removed);
  /// Go back to the previous checkpoint if the one that the attempt was to begin from cannot be
  /// read. Return none if there is no reason to go back: its content was not at fault, or the user
  /// had named that checkpoint.
  std::optional<Effects> give_up_restored(const std::optional<CheckpointInfo>& restored,
                                          const Error& error);

 private:
  struct CommitUnderWay {
    std::uint64_t checkpoint_seq = 0;
    TimePoint since;
    std::optional<TimePoint> awaited_since = {};  // since when only the commit is left
    std::optional<RunState> wait_said_in = {};
    bool warned = false, given_up = false;
  };
  Effects give_up(const CheckpointTracker::Outcome& outcome, bool no_space, bool may_come,
                  const Situation& situation);
  void watch_commit(Effects& effects, const Situation& situation, TimePoint now);
  std::optional<Note> little_space(const FreeSpace& space);
  TimePoint commit_warn_at() const;

  Duration upload_timeout_;
  std::string storage_path_;
  std::optional<CheckpointInfo> newest_;
  std::vector<CheckpointInfo> older_;  // what to restore from if `newest_` is not intact
  std::uint64_t last_number_ = 0;
  int without_space_ = 0;      // checkpoints in a row given up for lack of space
  bool little_space_ = false;  // for the next one, as far as we know

  Attempt attempt_;
  CheckpointTracker tracker_{0};
  std::optional<CommitUnderWay> commit_;
  std::string mixed_since_;  // why no later checkpoint of the attempt can be kept; empty: they can
};

}  // namespace train
