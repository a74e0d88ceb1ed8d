// Decides which trials of a sweep start and stop, and when the sweep has ended. Pure: it takes what
// has happened, in the order of the sweep's journal, and says what is to be done. Its shell is
// launcher/cluster/sweep/sweep_driver, which writes each event into the journal before it does
// anything that follows from it, so that a later driver can take the same events in again and goes
// on with the same trials. A trial is a run of its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/search/asha.h"
#include "launcher/core/search/median_rule.h"
#include "launcher/core/search/search_spec.h"

namespace train {

// ---- events

/// The driver is about to start the trial.
struct TrialStarted {
  int trial = 0;
  bool operator==(const TrialStarted&) const = default;
};
/// Rank 0 has reported the metric.
struct TrialReported {
  int trial = 0;
  double time = 0;  // the time attribute, or the number of the report
  double value = 0;
  bool operator==(const TrialReported&) const = default;
};
/// Invalid: the trial says that its values make no sense. Another one takes its place.
enum class TrialEnd { Finished, Stopped, Failed, Invalid };
inline constexpr std::array<std::string_view, 4> kTrialEnds{"finished", "stopped", "failed",
                                                            "invalid"};
struct TrialEnded {
  int trial = 0;
  TrialEnd end = TrialEnd::Finished;
  int code = 0;  // train-run's
  std::string cause = {};
  bool operator==(const TrialEnded&) const = default;
};

// ---- actions

struct StartTrial {
  int trial = 0;
  bool operator==(const StartTrial&) const = default;
};
struct StopTrial {
  int trial = 0;
  std::string why;
  bool operator==(const StopTrial&) const = default;
};
/// Everything is done. A code other than 0: the sweep has failed, with this cause.
struct EndSearch {
  int code = 0;
  std::string cause = {};
  bool operator==(const EndSearch&) const = default;
};
using SearchAction = std::variant<StartTrial, StopTrial, EndSearch>;

// ----

/// How many trials must fail alike, before any other end, for the sweep to be given up.
inline constexpr int kAlikeFailures = 3;

/// A trial as far as it is known.
struct TrialState {
  boost::json::object values = {};
  std::optional<TrialEnded> ended = {};
  bool stops = false;                // the scheduler has had enough of it
  std::optional<double> time = {};   // of its newest report
  std::optional<double> value = {};  // the newest
  std::optional<double> best = {};   // finite
  std::optional<double> best_time = {};
};

class SearchController {
 public:
  explicit SearchController(SearchSpec spec);

  /// Return whether the scheduler takes this report into account, so that it must be in the journal
  /// before handle() is called.
  bool is_decisive(const TrialReported& report) const;

  void handle(const TrialStarted& started);
  /// Reports that a trial repeats after a restart change nothing.
  void handle(const TrialReported& report);
  void handle(const TrialEnded& ended);
  /// Take in what a report came to that the scheduler has not seen, or has seen before.
  void restore(const TrialReported& report);
  /// So many trials may run at once, for example because no more fit.
  void limit_trials(int trials) { fit_ = trials; }

  /// Return what to do now, each action once. StartTrial counts only once handle(TrialStarted) has
  /// been called.
  std::vector<SearchAction> next_actions();

  const SearchSpec& spec() const { return spec_; }
  /// Return how many trials there will be, as far as is known.
  int trials_in_all() const;
  /// By number: numbers are given in order.
  const std::vector<TrialState>& trials() const { return trials_; }
  std::vector<int> running() const;
  /// Return the trial with the best value so far; failed and invalid ones do not count.
  std::optional<int> best() const;
  bool is_better(double a, double b) const;

 private:
  bool takes_time(const TrialReported& report) const;
  std::optional<EndSearch> end() const;

  const SearchSpec spec_;
  int fit_ = kConcurrentTrialsMax;
  std::vector<TrialState> trials_;
  std::vector<std::optional<double>> decided_;  // by trial: the time of the last decisive report
  std::vector<bool> asked_;                     // by trial: StopTrial has been returned
  int running_ = 0, invalid_ = 0;
  std::vector<TrialEnded> first_ends_;  // kAlikeFailures of them
  bool ended_ = false;                  // EndSearch has been returned
  std::optional<Asha> asha_;
  std::optional<MedianRule> median_;
};

/// Return whether two trials have failed for the same reason: names of ranks, nodes and numbers in
/// the causes do not count.
bool fail_alike(const TrialEnded& a, const TrialEnded& b);

}  // namespace train
