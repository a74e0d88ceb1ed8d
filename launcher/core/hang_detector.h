// Judges which workers of a running group hang. Only the controller sees all ranks, so only it can
// tell a rank that hangs from those that wait for it. Pure: samples in, findings out.
//
// A rank is silent for as long as its loop shows no sign of life (lib/model/worker_progress.h), not
// counting the time for which it had no CPU. Its limit is, in this order: that of phase_timeouts,
// the program's own, hang_timeout, or one that was learned. Learned limits are five times the
// longest silence that any rank has had in this phase, and never less than a floor; there is none
// before eight such silences of one rank have ended. Under hang_timeout and learned limits, a rank
// that computes or reads gets twice the time. What it used before counts no longer: its use is that
// of the newest quarter to half of its silence. The factor is that of NVIDIA's
// nvidia-resiliency-ext (fault_tolerance, safety_factor).
//
// A rank that waits in a collective call to which another rank has not come yet, or for a rank of
// its node in once_per_node(), is never accused; the other rank is judged by its own phase. Once
// the other has come, the time begins anew: the newest sample of the one that waited may be older.
// Waits for train-run itself (phases wait and report) have no limit but that of phase_timeouts,
// unless the process is stopped. A rank that hangs is named with those that wait for it: in which
// call, who has not entered it, and how many calls each of these has made. Ranks of programs
// without the SDK are judged only under hang_timeout, and hang if they neither compute nor read nor
// write.
//
// A rank whose process is held, by a signal (state T) or in the kernel (state D), is named by
// itself, and is the first to be blamed. The others most likely wait for it. Of programs without
// the SDK nothing else says so: their ranks are not accused while another one has been held for
// half of their silence or longer, and their time begins anew once it is not.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "launcher/core/node_pool.h"
#include "launcher/core/rank_table.h"
#include "lib/model/rank_sample.h"

namespace train {

/// Samples come each second; of a rank without a newer one nothing is known.
inline constexpr Duration kSampleAgeMax = seconds(5);
inline constexpr Duration kJudgeEvery = seconds(1);
inline constexpr std::uint64_t kSilencesToLearn = 8;
inline constexpr int kSilenceFactor = 5;

class HangDetector {
 public:
  /// `trusts_learned`: under hang_action: auto, learned limits end the group, too.
  explicit HangDetector(const FailureConfig& config, bool trusts_learned = false)
      : config_(config), trusts_learned_(trusts_learned) {}

  void sampled(const RankSample& sample, TimePoint now);

  struct Finding {
    enum class Kind {
      Suspect,  // half of a given limit has passed
      Hung,
      Cleared  // it moves again
    };
    Kind kind = Kind::Suspect;
    std::vector<Rank> ranks;  // never empty
    bool fails = false;       // of Hung: the group is to fail, because of the first of them
    std::string text;         // one line
    bool marks = true;        // the SDK marks the loop of the first of them
    /// All ranks that hang in the phase of the first of them; only of failing().
    std::vector<Rank> alike = {};
  };
  /// Judge the living ranks, and return what has changed since the last time. Call this while the
  /// group runs, at next_deadline().
  std::vector<Finding> judge(const RankTable& ranks, const NodePool& nodes, TimePoint now);
  /// Return a rank that hangs still, if that is to end the group; nothing if all have moved.
  std::optional<Finding> failing(const RankTable& ranks, TimePoint now) const;
  /// Return whether a living rank has not moved since it was accused so that the group is to end.
  /// failing() does not name it while it is not judged: a debugger holds it (as whoever takes
  /// stacks does for a moment), or nothing was heard of it lately.
  bool accuses(const RankTable& ranks) const;
  /// What has become of the ranks that were accused by a learned limit. Right: one has shown no
  /// sign of life for twice its limit. Wrong: one has moved.
  enum class Learned { Unknown, Right, Wrong };
  Learned learned() const;
  std::optional<TimePoint> next_deadline() const;

 private:
  using Verdict = std::optional<Finding::Kind>;
  struct Usage {  // what the processes had used by then
    TimePoint at{};
    std::int64_t cpu_us = 0, io_bytes = 0;
  };
  struct Watched {
    RankSample newest;
    TimePoint sampled_at{};
    Usage used_before, used_lately;              // the window of its use begins at the former
    TimePoint active_at{};                       // when its processes last computed, read or wrote
    TimePoint waited_at{};                       // when it was last seen to wait for another rank
    TimePoint excused_at{};                      // when another rank was last seen to be held
    std::optional<TimePoint> held_since = {};    // since when its process is held, and uses nothing
    Verdict verdict;                             // none, Suspect or Hung
    bool fails = false;                          // its verdict ends the group
    std::optional<Duration> learned_limit = {};  // by which it hangs
    // When it was accused:
    Duration accused_for{};           // how long it had been silent
    std::uint64_t accused_signs = 0;  // its signs of life until then
    TimePoint accused_when{};
    std::string said = {};
    int patience = 1;  // doubled each time that it moves again after it was accused
  };
  struct Limit {
    Duration time{};
    std::string source;  // "hang_timeout"
    bool learned = false;
  };
  /// What the samples of all ranks say together.
  struct Overview;

  static Duration silence_of(const Watched& watched);
  static bool is_busy(const Watched& watched);
  static std::string process_text(const Watched& watched);
  static Duration judged_silence(const Watched& watched);
  bool is_judged(const Watched& watched, const RankTable::Entry& entry, TimePoint now) const;
  Overview overview(const RankTable& ranks, TimePoint now) const;
  void find_held(const RankTable& ranks, TimePoint now, Overview& all) const;
  std::optional<Limit> limit_of(const Watched& watched, const Overview& all) const;
  static bool has_moved(const Watched& watched);
  bool fails_by(const Limit& limit) const;
  bool may_fail_by_learned() const;
  Verdict judge_one(const Watched& watched, const std::optional<Limit>& limit) const;
  std::string finding_text(Finding::Kind kind, const std::vector<Rank>& ranks, const Limit& limit,
                           const Overview& all, const std::string& node) const;

  const FailureConfig config_;
  const bool trusts_learned_;
  bool learned_was_wrong_ = false;
  std::map<Rank, Watched> watched_;
  std::optional<TimePoint> judged_at_;
};

}  // namespace train
