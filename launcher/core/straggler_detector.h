// Finds ranks that are slower than the others for a long time. Only the controller sees all ranks.
// Pure: samples in, findings out.
//
// What is compared is the own time of a rank: how long one step of it spends in the phases step and
// data. In ranks that synchronise, all steps are equally long, and a rank that needs longer for its
// own part waits less for the others: so this is the same as to compare waits, and works for ranks
// that do not synchronise, too. Checkpoints, validation and reports do not count: often one rank
// does more of them than the others, and is meant to.
//
// Own times are compared in windows of 20 steps or more (of steps that take long: of 3 in a
// minute). In a window a rank is slow if it is behind the median of the others by more than 5 % of
// a step, and by more than three times the median deviation of the others. (The median and not the
// fastest: of many equal ranks, the fastest is always far from most.) It is named once it was slow
// in 8 of 10 windows, and once that is unlikely to be chance.
//
// The odds. If no rank is slower than the others, the order of the N ranks in a window is as good
// as drawn: that a given one is among the m slowest has the probability m/N, whatever the times are
// distributed like. (m: the ranks that are suspected at the same time.) A rank that was so in k of
// the n windows since it was first slow has been so by chance with P = the upper tail at k of the
// binomial distribution (n, m/N). We look at N ranks, and after each of the W windows so far, so
// the odds are at most N·W·P, and this is what we say. They assume that windows do not depend on
// each other; they say nothing about the cause.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/node_pool.h"
#include "launcher/core/rank_table.h"
#include "lib/model/rank_sample.h"

namespace train {

inline constexpr std::uint64_t kWindowSteps = 20;
inline constexpr Duration kLongWindow = seconds(60);
inline constexpr std::uint64_t kLongWindowSteps = 3;
inline constexpr std::size_t kWindowsJudged = 10;
inline constexpr std::size_t kSlowWindowsMin = 8;   // of these: it is named
inline constexpr std::size_t kClearWindowsMax = 2;  // no more of these: it is cleared
inline constexpr std::size_t kWindowsRemembered = 60;
inline constexpr double kOddsMax = 1e-4;

/// Return the probability of k successes or more in n trials of probability p.
double binomial_tail(std::size_t n, std::size_t k, double p);
/// Return "1 in 30,000": rounded down to one digit.
std::string odds_text(double odds);

class StragglerDetector {
 public:
  void sampled(const RankSample& sample, TimePoint now);

  struct Finding {
    bool slow = true;         // false: no longer
    std::vector<Rank> ranks;  // all of one node; never empty
    NodeId node;
    bool whole_node = false;  // these are all of its ranks, and there are several
    Phase phase = Phase::Step;
    double behind = 0;  // the median, as a share of the median's own time
    Duration lasted{};  // so far
    double odds = 1;
    std::string text;  // one line
  };
  /// Compare the living ranks, and return what has changed. Call this while the group runs, after
  /// samples.
  std::vector<Finding> judge(const RankTable& ranks, const NodePool& nodes, TimePoint now);
  /// Begin a new window: the group did something else meanwhile.
  void interrupt() { base_.clear(); }

 private:
  struct Counters {
    std::uint64_t steps = 0;
    std::int64_t step_us = 0, data_us = 0, all_us = 0;  // of all intervals that have ended
    TimePoint at{};
  };
  struct OwnTime {  // of one step in one window, in microseconds
    Rank rank;
    double step = 0, data = 0, whole = 0;
    double own() const { return step + data; }
  };
  struct InWindow {
    bool slow = false;
    std::uint32_t slower = 0;  // how many others were not faster
    float behind = 0;
    bool data = false;  // most of that is in data
  };
  struct History {
    std::vector<InWindow> windows;     // the newest last; since it was first slow
    std::optional<TimePoint> since{};  // it was first slow
    bool named = false;
  };

  static Counters counters_of(const WorkerProgress& progress, TimePoint now);
  static bool compares(const RankTable& ranks, Rank rank, const Counters& counters);
  void begin_window(const RankTable& ranks, TimePoint now);
  std::optional<std::vector<OwnTime>> own_times(const RankTable& ranks, TimePoint now) const;
  void remember(const std::vector<OwnTime>& times);
  std::size_t suspected() const;
  double odds_of(const History& history, std::size_t suspected) const;
  static void add(Finding& finding, Rank rank, const History& history, double odds, TimePoint now);
  static std::string text_of(const Finding& finding, const std::string& node);
  std::vector<Finding> findings(const RankTable& ranks, const NodePool& nodes, TimePoint now);

  std::map<Rank, Counters> newest_;
  std::map<Rank, Counters> base_;  // at the window's beginning; empty: none has begun
  TimePoint began_{};              // the window
  std::optional<TimePoint> judged_at_;
  std::map<Rank, History> histories_;
  std::uint64_t windows_ = 0;  // so far
};

}  // namespace train
