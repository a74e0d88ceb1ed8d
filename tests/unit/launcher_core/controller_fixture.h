// A RunController with two workers on two nodes. Functions bring it to a state by the events that
// lead there.
#pragma once

#include <gtest/gtest.h>

#include <csignal>

#include "launcher/core/run_controller.h"

namespace train {

constexpr TimePoint kStart{seconds(1000)};
constexpr NodeId kNodeA{0}, kNodeB{1}, kNodeC{2};
constexpr Attempt kFirst{0}, kSecond{1};
using Actions = std::vector<RunAction>;

inline JobSpec two_workers(int max_failures = 0) {
  JobSpec spec;
  spec.scaling_config.num_workers = {2, 2};
  spec.scaling_config.placement_strategy = PlacementStrategy::Spread;
  spec.run_config.failure_config.max_failures = max_failures;
  return spec;
}
inline NodeUp node_up(NodeId id, std::vector<Attempt> attempts = {}) {
  const Resources has{.cpu = 4, .custom = {}};
  const std::string name = std::string("node-") + static_cast<char>('a' + id.value);
  return {{id, name, has, has}, "10.0.0." + std::to_string(id.value + 1), std::move(attempts)};
}
inline WorkerEnd exited(int code, bool stop_requested = false) {
  return {.status = code, .stop_requested = stop_requested};
}
inline WorkerEnd killed(int signal, bool stop_requested = false) {
  WorkerEnd end = exited(signal, stop_requested);
  end.signaled = true;
  return end;
}
/// The end of a worker that was told to leave its loop.
inline WorkerEnd left_when_told() {
  WorkerEnd end = exited(0);
  end.told_to_stop = true;
  return end;
}
inline PlacedNode on_a() { return {kNodeA, NodeRank{0}, Rank{0}, 1}; }
inline PlacedNode on_b() { return {kNodeB, NodeRank{1}, Rank{1}, 1}; }
inline Placement both() {
  return {.world_size = 2, .nodes = {on_a(), on_b()}, .reason = "", .never = false};
}
inline Start start_of(Attempt attempt, NodeId node, int restarts,
                      std::optional<CheckpointInfo> restore = {}) {
  return {attempt, node == kNodeA ? on_a() : on_b(), both(), "10.0.0.1", 41000, std::move(restore),
          restarts};
}
inline StateChanged changed(RunState from, RunState to, RunTrigger trigger, Attempt attempt,
                            std::string reason = "") {
  return {from, to, trigger, attempt, std::move(reason), ""};
}
inline AttemptBegun begun(Attempt attempt, const Placement& placement,
                          std::vector<std::string> names, int restarts = 0,
                          std::optional<CheckpointInfo> restore = {}) {
  return {attempt, placement, std::move(names), std::move(restore), restarts};
}
inline CheckpointInfo checkpoint(std::uint64_t number) {
  return {number, "checkpoint_" + std::to_string(number), 3};
}
inline ShardStaged staged(Attempt attempt, int rank, std::uint64_t index,
                          std::uint64_t report_seq = 1) {
  return {attempt, {{Rank{rank}, "dir"}, index, report_seq}};
}

/// Return the actions but for what nodes are to keep.
inline Actions without_room(Actions actions) {
  std::erase_if(actions,
                [](const RunAction& action) { return std::holds_alternative<KeepRoom>(action); });
  return actions;
}

/// Return the actions of one kind.
template <class Action>
std::vector<Action> only(const Actions& actions) {
  std::vector<Action> found;
  for (const RunAction& action : actions) {
    if (const auto* one = std::get_if<Action>(&action)) found.push_back(*one);
  }
  return found;
}

struct Driven {
  explicit Driven(JobSpec spec = two_workers(),
                  RunStart start = {.checkpoint = {}, .expected_nodes = 2})
      : run(spec, std::move(start), kStart) {}

  /// Return the actions but for what nodes are to keep: see room().
  Actions handle(const RunEvent& event, Duration after = {}) {
    return without_room(run.handle(event, kStart + after));
  }
  std::vector<KeepRoom> room(const RunEvent& event, Duration after = {}) {
    return only<KeepRoom>(run.handle(event, kStart + after));
  }
  void nodes() {
    handle(node_up(kNodeA));
    handle(node_up(kNodeB));
  }
  void prepared(Attempt attempt) {
    handle(AttemptPrepared{attempt, kNodeA, 41000});
    handle(AttemptPrepared{attempt, kNodeB, 0});
  }
  void started(Attempt attempt) {
    prepared(attempt);
    handle(AttemptStarted{attempt, kNodeA, {{Rank{0}, 100}}});
    handle(AttemptStarted{attempt, kNodeB, {{Rank{1}, 100}}});
  }
  Driven& running(bool reporting = true) {
    nodes();
    started(kFirst);
    for (int rank = 0; rank < 2 && reporting; ++rank) {
      handle(RankJoined{kFirst, Rank{rank}});
      handle(RankReported{kFirst, Rank{rank}, 1});
    }
    return *this;
  }
  RunController run;
};

}  // namespace train
