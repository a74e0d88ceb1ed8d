// Decides on the checkpoints that somebody asks a running group for (lib/wire/PROTOCOL.md, "A
// checkpoint now"): where all ranks make one, and what those who asked are answered. One request is
// open at a time; who asks meanwhile joins it. One state machine for each attempt: events in,
// effects out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/rank_table.h"
#include "launcher/core/run_events.h"
#include "lib/base/time.h"
#include "lib/model/checkpoint_order.h"

namespace train {

/// How long the ranks may take to tell how far they have got. Meanwhile they wait.
inline constexpr Duration kPositionsWithin = seconds(10);
/// How long an answer may take. After this time the checkpoint may still be made.
inline constexpr Duration kCheckpointWithin = seconds(600);
inline constexpr std::size_t kCheckpointAskersMax = 64;

class CheckpointRequests {
 public:
  /// An order is for all nodes of the attempt.
  using Effect = std::variant<CheckpointOrder, CheckpointAnswered, Note>;
  using Effects = std::vector<Effect>;

  /// Somebody asks. Precondition: the group runs.
  Effects asked(const std::string& id, const RankTable& ranks, TimePoint now);
  Effects told(const CheckpointPositionTold& event, const RankTable& ranks);
  void staged(const StagedShard& shard);
  Effects committed(std::uint64_t checkpoint_seq, std::uint64_t number);
  Effects not_kept(std::uint64_t checkpoint_seq, const std::string& error);
  Effects rank_ended(Rank rank);
  /// The group does not run any more, or has ended. What is decided stays decided.
  Effects leave_running(RunState state);
  Effects attempt_ended();
  /// Answer those who have waited too long. Call this at next_deadline().
  Effects advance(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  /// Take over the newest request of an earlier launcher, as a supervisor knows it.
  void found(const CheckpointOrder& order);
  /// Drop it, once all supervisors are found. Nobody waits for its answer any more.
  Effects drop_found();

  /// Return the newest order, for supervisors that may lack it.
  const std::optional<CheckpointOrder>& newest_order() const { return newest_; }

 private:
  struct Asker {
    std::string id;
    TimePoint until;
  };
  struct Asking {
    TimePoint until;
    std::map<Rank, CheckpointPositionTold> positions = {};
  };
  struct Making {
    std::set<Rank> staged = {};
    std::optional<std::uint64_t> checkpoint_seq = {};
  };
  struct Idle {};

  Effects decide(const std::map<Rank, CheckpointPositionTold>& positions);
  Effects cancel(const std::string& why);
  CheckpointOrder& order(CheckpointStep step);
  void answer(Effects& effects, std::uint64_t number, const std::string& error);

  std::variant<Idle, Asking, Making> state_ = Idle{};
  std::vector<Asker> askers_;
  std::optional<CheckpointOrder> newest_;
  bool found_ = false;  // the newest order is an earlier launcher's
};

}  // namespace train
