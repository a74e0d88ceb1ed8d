// A group of ranks whose samples a HangDetector judges, second by second.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/hang_detector.h"

namespace train {

/// A group of ranks on one node, whose loops go on or not, second by second.
class Group {
 public:
  explicit Group(int ranks, const FailureConfig& config = {}, bool trusts_learned = false)
      : ranks_(placement(ranks)), detector_(config, trusts_learned) {
    nodes_.up(NodeUp{.capacity = {.node = NodeId{0}, .name = "n0", .total = {}, .free = {}},
                     .address = "a"});
    for (int rank = 0; rank < ranks; ++rank) {
      RankSample& sample = samples_.emplace_back(RankSample{.rank = Rank{rank}});
      sample.progress = {.phase = Phase::Step, .steps = 40};
      sample.progress.intervals.resize(kPhases.size());
      sample.process = {.pid = 100 + rank, .state = "S", .processes = 1, .threads = 1};
      detector_.sampled(sample, now_);
    }
  }

  WorkerProgress& progress(int rank) {
    return samples_.at(static_cast<std::size_t>(rank)).progress;
  }
  ProcessSample& process(int rank) { return samples_.at(static_cast<std::size_t>(rank)).process; }
  template <class Change>
  void change(int rank, Change&& how) {
    ranks_.change(Rank{rank}, how);
  }
  /// The rank's loop goes to another phase, which is a sign of life.
  void enters(int rank, Phase phase, const std::string& name = "") {
    progress(rank).phase = phase;
    progress(rank).name = name;
    sign(rank);
  }
  void sign(int rank) {
    ++progress(rank).signs;
    progress(rank).quiet_us = 0;
  }
  /// Nothing happens in any loop for this time, but `busy` uses its CPU.
  std::vector<HangDetector::Finding> pass(Duration time, int busy = -1) {
    std::vector<HangDetector::Finding> all;
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += seconds(1);
      for (RankSample& sample : samples_) {
        sample.progress.quiet_us += 1'000'000;
        if (sample.rank.value == busy) sample.process.cpu_us += 900'000;
        if (silent_ != sample.rank.value) detector_.sampled(sample, now_);
      }
      for (auto& found : detector_.judge(ranks_, nodes_, now_)) all.push_back(std::move(found));
    }
    return all;
  }
  HangDetector::Learned learned() const { return detector_.learned(); }
  /// No more samples of this rank come.
  void loses_touch_with(int rank) { silent_ = rank; }

 private:
  static Placement placement(int ranks) {
    Placement placement{.world_size = ranks};
    placement.nodes.push_back(
        {.node = NodeId{0}, .first_rank = Rank{0}, .local_world_size = ranks});
    return placement;
  }

  TimePoint now_{seconds(1000)};
  RankTable ranks_;
  NodePool nodes_{1};
  HangDetector detector_;
  std::vector<RankSample> samples_;
  int silent_ = -1;
};

inline FailureConfig limit(Duration hang_timeout) { return {.hang_timeout = hang_timeout}; }

inline std::vector<HangDetector::Finding::Kind> kinds(
    const std::vector<HangDetector::Finding>& findings) {
  std::vector<HangDetector::Finding::Kind> all;
  for (const auto& finding : findings) all.push_back(finding.kind);
  return all;
}

}  // namespace train
