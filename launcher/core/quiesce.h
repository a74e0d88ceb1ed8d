// Bring a worker group to rest gracefully (lib/wire/PROTOCOL.md, "Stopping gracefully"): every
// rank pauses at its next report, the furthest one is where all meet, there they hand over a
// checkpoint, then they are told to leave. One machine for all that ask for it: a stop, a drained
// node, a group that is to grow.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "launcher/core/rank_table.h"
#include "lib/base/time.h"

namespace train {

inline constexpr Duration kGatherPause =
    seconds(1);  // for ranks that report; then one of them waits for another that is paused
inline constexpr Duration kStragglerPause =
    seconds(2);  // for ranks that have not reported yet, once all others are paused
inline constexpr Duration kFinishGrace = seconds(5);  // from `finish` to TERM

class Quiesce {
 public:
  /// `deadline`: then the ranks have not met in time. `at_checkpoint`: no work may be lost, and
  /// there is time: ranks pause only where they hand over a checkpoint. The ranks are to be told
  /// now(): Pause.
  Quiesce(TimePoint now, TimePoint deadline, bool at_checkpoint)
      : deadline_(deadline), at_checkpoint_(at_checkpoint), step_(Gather{.since = now}) {}

  /// What it needs to know of the rest of the attempt.
  struct Surroundings {
    std::uint64_t settled_checkpoint = 0;  // the newest that is committed, given up or under way
    bool committing = false;
    bool for_good =
        false;  // the ranks leave for good: where one came to its end by itself, all may
  };
  enum class Next {
    Wait,
    Send,         // tell all ranks what to_send() says
    AwaitCommit,  // nothing is missing but the commit of their checkpoint
    TimedOut,     // the deadline has passed
  };
  /// What can be done now. To be called after everything that happens, and at next_deadline().
  Next advance(RankTable& ranks, const Surroundings& around, TimePoint now);
  /// There is less time than there was, and none to wait for a checkpoint: from a meeting at a
  /// checkpoint back to one at any report. True where the ranks are to be told to pause once more.
  bool escalate(TimePoint deadline, TimePoint now);

  /// The step that ranks are to be told, and the report that it is about.
  Pause::Step to_send() const;
  std::uint64_t meeting() const;
  bool at_checkpoint() const { return at_checkpoint_; }
  /// The ranks were told to leave.
  bool finishing() const { return std::holds_alternative<Finish>(step_); }
  /// It is known where all stop, and this report comes after it.
  bool is_past_the_end(std::uint64_t report_seq) const;
  std::optional<TimePoint> next_deadline(TimePoint now) const;

 private:
  struct Gather {
    TimePoint since;
    std::optional<TimePoint> first_paused_at = {};
    std::optional<TimePoint> reporting_paused_at =
        {};  // only ranks that never reported are missing
  };
  struct Advance {
    std::uint64_t meeting = 0;
    std::optional<TimePoint> all_arrived_at = {};
  };
  struct Finish {
    std::uint64_t meeting = 0;
  };

  Next gather(Gather& gather, RankTable& ranks, const Surroundings& around, TimePoint now);
  Next meet(Advance& advance, RankTable& ranks, const Surroundings& around, TimePoint now);
  Next advance_to(std::uint64_t report_seq, RankTable& ranks);
  std::optional<TimePoint> gather_until(const Gather& gather) const;

  TimePoint deadline_;
  bool at_checkpoint_ = false;
  std::variant<Gather, Advance, Finish> step_;
};

}  // namespace train
