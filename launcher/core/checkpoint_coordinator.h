// Makes the decisions about the run's checkpoints. It collects the shards of the attempt's next
// checkpoints, has complete ones committed, gives up what cannot be stored, and chooses the
// committed one that an attempt begins from. One machine: events in, effects out. launcher/cluster
// stores the files.
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

inline constexpr int kWithoutSpaceMax =
    3;  // checkpoints in a row not kept for lack of space; then the run fails
inline constexpr Duration kCommitWarnAfter = seconds(60);
inline constexpr Duration kStorageTimeout =
    seconds(1);  // once all else is done: the wait for a commit before we say so, and before it is
                 // given up where the run is asked to stop immediately

class CheckpointCoordinator {
 public:
  /// `newest`: the newest committed checkpoint, or resume_from_checkpoint. `older`: the ones kept
  /// beside it, oldest first.
  CheckpointCoordinator(const RunConfig& config, std::optional<CheckpointInfo> newest,
                        std::vector<CheckpointInfo> older, std::uint64_t last_number)
      : upload_timeout_(config.checkpoint_config.upload_timeout),
        storage_path_(config.storage_path),
        newest_(std::move(newest)),
        older_(std::move(older)),
        last_number_(last_number) {}

  struct Tell {  // what became of one: to the supervisor of a rank that asks again, or to all
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
  struct OutOfSpace {  // the run is to fail
    std::string cause;
  };
  using Effect = std::variant<Tell, BeginCommit, AbandonCommit, OutOfSpace, Note>;
  using Effects = std::vector<Effect>;

  /// The state of the run, as far as an effect or its words depend on it.
  struct Situation {
    RunState state{};
    bool escalated = false;  // it was asked to stop immediately
    bool quiescing = false;  // ranks were asked to meet at one report
  };

  // ---- of one attempt
  void begin_attempt(Attempt attempt, int world_size);
  /// Take over an attempt that an earlier launcher began.
  void adopt_attempt(const LivingAttempt& living);
  Effects staged(StagedShard shard, TimePoint now);
  /// A supervisor has heard from an earlier launcher what became of all checkpoints up to
  /// `checkpoint_seq`.
  Effects resolved_before(std::uint64_t checkpoint_seq);
  Effects commit_finished(const CommitFinished& event, const Situation& situation);
  /// Begin the next commit where a checkpoint is complete. To be called after every event.
  Effects advance(const Situation& situation, TimePoint now);
  /// Warn of missing shards and of a commit that takes long, and give that commit up in time.
  Effects watch(const Situation& situation, TimePoint now);
  std::optional<TimePoint> next_deadline(RunState state) const;

  bool committing() const { return tracker_.committing(); }
  std::uint64_t resolved() const { return tracker_.resolved(); }
  /// Nothing is left to do but to wait for the commit.
  void await_commit(TimePoint now);
  bool commit_awaited() const { return commit_ && commit_->awaited_since; }
  /// Return whether the user was told that Ctrl-C gives the commit up.
  bool offered_to_give_up() const {
    return commit_ && commit_->wait_said_in == RunState::TearingDown;
  }

  // ---- of the run
  const std::optional<CheckpointInfo>& newest() const { return newest_; }
  /// Take in a committed checkpoint, also one that was given up and turned out to be committed all
  /// the same. Return false where it was known.
  bool take_committed(const CheckpointInfo& checkpoint, const std::vector<std::uint64_t>& removed);
  /// Go back to the previous checkpoint where the one that the attempt was to begin from cannot be
  /// read. Return none where there is no reason to go back: its content was not at fault, or the
  /// user had named that checkpoint.
  std::optional<Effects> give_up_restored(const std::optional<CheckpointInfo>& restored,
                                          const Error& error);

 private:
  struct CommitUnderWay {
    std::uint64_t checkpoint_seq = 0;
    TimePoint since;
    std::optional<TimePoint> awaited_since = {};  // there is nothing else left to do
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
  std::vector<CheckpointInfo> older_;  // what to restore where that turns out not to be intact
  std::uint64_t last_number_ = 0;
  int without_space_ = 0;      // checkpoints in a row given up for lack of space
  bool little_space_ = false;  // for the next one, as far as is known

  Attempt attempt_;
  CheckpointTracker tracker_{0};
  std::optional<CommitUnderWay> commit_;
};

}  // namespace train
