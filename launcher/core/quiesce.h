// Brings a worker group to rest gracefully (lib/wire/PROTOCOL.md, "Stopping gracefully"). Every
// rank pauses at its next report. All ranks meet at the furthest one. Once all are there they make
// a checkpoint, and are then told to leave. (A checkpoint made on arrival would be one too many for
// those ranks if another one, which nobody could reach, has come to its own end meanwhile.) The
// same machine handles a stop, a drained node, and a group that is to grow.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "launcher/core/rank_table.h"
#include "lib/base/time.h"

namespace train {

/// How long to wait for ranks that report. After this time, one of them must be waiting for a
/// paused one.
inline constexpr Duration kGatherPause = seconds(1);
/// How long to wait for ranks that have not reported yet, once all others are paused.
inline constexpr Duration kStragglerPause = seconds(2);
inline constexpr Duration kFinishGrace = seconds(5);  // from `finish` to TERM

class Quiesce {
 public:
  /// `deadline`: when the ranks must have met. `at_checkpoint`: ranks pause only where they hand
  /// over a checkpoint, because no work may be lost and there is time. The caller must tell the
  /// ranks to pause now.
  Quiesce(TimePoint now, TimePoint deadline, bool at_checkpoint)
      : deadline_(deadline), at_checkpoint_(at_checkpoint), step_(Gather{.since = now}) {}

  /// What Quiesce needs to know about the rest of the attempt.
  struct Surroundings {
    std::uint64_t resolved_checkpoint = 0;  // the newest that is committed, given up or under way
    bool committing = false;
    /// The ranks leave for good, so all may stop where one of them ended by itself.
    bool for_good = false;
  };
  enum class Next {
    Wait,
    Send,         // send all ranks the step to_send()
    AwaitCommit,  // only the commit of their checkpoint is missing
    TimedOut,     // the deadline has passed
  };
  /// Return what to do now. Call this after every event and at next_deadline().
  Next advance(RankTable& ranks, const Surroundings& around, TimePoint now);
  /// Shorten the deadline so that no time is left to wait for a checkpoint: a meeting at a
  /// checkpoint becomes one at any report. Return true if the ranks have to be told again to pause.
  bool escalate(TimePoint deadline, TimePoint now);

  /// Return the step to tell the ranks, and the report that it refers to.
  PauseStep to_send() const;
  std::uint64_t meeting() const;
  TimePoint deadline() const { return deadline_; }
  bool at_checkpoint() const { return at_checkpoint_; }
  /// Return whether the ranks were told at which report to meet, and not yet to leave.
  bool meeting_at_report() const { return std::holds_alternative<Advance>(step_); }
  /// Return whether the ranks were told to leave.
  bool finishing() const { return std::holds_alternative<Finish>(step_); }
  /// Return whether this report is past the point where all ranks stop, if that point is known.
  bool is_past_the_end(std::uint64_t report_seq) const;
  std::optional<TimePoint> next_deadline(TimePoint now) const;

 private:
  struct Gather {
    TimePoint since;
    std::optional<TimePoint> first_paused_at = {};
    /// Since when only ranks that have never reported are missing.
    std::optional<TimePoint> reporting_paused_at = {};
  };
  /// What ranks do that all wait, as of a version of their table.
  struct AtRest {
    std::uint64_t version = 0;
    bool elsewhere = false;  // one is not where they are to meet
    std::uint64_t nearest = UINT64_MAX, furthest = 0, common_checkpoint = UINT64_MAX;
  };
  struct Advance {
    std::uint64_t meeting = 0;
    bool checkpointing = false;  // all are there, and were told to make their checkpoints
    std::optional<TimePoint> all_arrived_at = {};
    std::optional<AtRest> at_rest = {};
  };
  struct Finish {
    std::uint64_t meeting = 0;
  };

  Next gather(Gather& gather, RankTable& ranks, const Surroundings& around, TimePoint now);
  Next meet(Advance& advance, RankTable& ranks, const Surroundings& around, TimePoint now);
  static AtRest at_rest(const RankTable& ranks, std::optional<std::uint64_t> meeting);
  Next advance_to(std::uint64_t report_seq, RankTable& ranks);
  std::optional<TimePoint> gather_until(const Gather& gather) const;

  TimePoint deadline_;
  bool at_checkpoint_ = false;
  std::variant<Gather, Advance, Finish> step_;
};

}  // namespace train
