// Books the time of one attempt's places, from their grant to their release, to what it was used
// for (lib/model/time_accounts.h). Pure: samples and ends in, accounts out.
//
// A rank's place is filled up in this order, each part with what is left at most, so that the
// accounts of a rank always add up to the time since the grant:
//  1. The time since its worker ended, or since its node was last heard of: Down if the attempt
//     ended badly, else Other.
//  2. The phases of its newest progress, with the silence that had not ended. In a group that
//     hangs, that silence is Hung; in one that ended badly otherwise, a wait in a collective is
//     Down: the rank waited for one that had failed.
//  3. What is left came before the SDK was used: Start. Without any progress, Start until the
//     process existed, then Unknown.
// If the attempt ended badly, all of Step since the newest checkpoint that was committed in it is
// Lost; without a checkpoint, all of it.
//
// Progress counts from the worker's beginning, so it does not matter how many samples came. Of a
// rank that no sample came of since another launcher died, what that launcher wrote down last is
// taken: the average of all ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/ids.h"
#include "lib/model/time_accounts.h"
#include "lib/model/worker_progress.h"

namespace train {

/// What a launcher wrote down of an attempt, some time after it began.
struct NotedTime {
  TimeAccounts accounts;
  int world_size = 0;
  bool operator==(const NotedTime&) const = default;
};

class AttemptTime {
 public:
  /// How the attempt ended, as far as its time is concerned.
  enum class End {
    None,  // it runs
    Good,  // its work is kept
    Bad,   // its work since the newest checkpoint is lost
    Hung   // badly, because a rank hung
  };

  AttemptTime(int world_size, TimePoint began);
  /// Continue the accounts of an attempt that an earlier launcher began.
  AttemptTime(int world_size, TimePoint began, std::optional<NotedTime> noted);

  // Of ranks that the attempt has:
  void started(Rank rank, TimePoint now);
  void sampled(Rank rank, const WorkerProgress& progress, TimePoint now);
  /// Until the rank's next phase, reports only wait for the end of a pause.
  void paused(Rank rank);
  /// Its worker ended, `ago`. Of an attempt of an earlier launcher, that is the least.
  void ended(Rank rank, const WorkerProgress& progress, Duration ago, TimePoint now);
  /// This checkpoint of the attempt is committed.
  void committed(std::uint64_t checkpoint_seq);

  /// Return the accounts from the grant until `now`: their sum is world_size times that.
  TimeAccounts accounts(End end, TimePoint now) const;

 private:
  using PhaseTimes = std::array<Duration, kPhases.size()>;
  struct Place {
    PhaseTimes closed{};       // by Phase; of all programs that the worker was
    PhaseTimes earlier{};      // the part of programs before the newest
    Phase open = Phase::None;  // None: there was no progress
    Duration open_for{};       // so far
    std::uint64_t signs = 0;   // of life of the newest program
    TimePoint seen_at{};       // when the above was so
    Duration kept{};           // of Step: in the newest committed checkpoint
    std::optional<Duration> report_before_pause;
    std::optional<TimePoint> started_at, ended_at;
    std::vector<HandedOverCheckpoint> handed_over = {};
  };

  void take(Place& place, const WorkerProgress& progress);
  void resolve(Place& place) const;
  TimeAccounts accounts_of(const Place& place, End end, TimePoint now) const;

  TimePoint began_;
  bool adopted_ = false;
  std::optional<NotedTime> noted_;
  std::uint64_t committed_ = 0;  // checkpoint_seq; 0: none
  std::vector<Place> places_;    // by rank
};

}  // namespace train
