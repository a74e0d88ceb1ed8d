// Decides which trials of a sweep start and stop, and when the sweep has ended. Pure: it takes what
// has happened, in the order of the sweep's journal, and says what is to be done. Its shell is
// launcher/cluster/sweep/sweep_driver, which writes each event into the journal before it does
// anything that follows from it, so that a later driver can take the same events in again and goes
// on with the same trials. A trial is a run of its own.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "launcher/core/search/asha.h"
#include "launcher/core/search/median_rule.h"
#include "launcher/core/search/pbt.h"
#include "launcher/core/search/search_spec.h"

namespace train {

// ---- events

/// Somebody wants more trials than the spec says.
struct MoreTrials {
  int trials = 0;
  bool operator==(const MoreTrials&) const = default;
};
/// The searcher has said which values the next trial is to have: all parameters.
struct TrialProposed {
  int trial = 0;
  boost::json::object values = {};
  bool operator==(const TrialProposed&) const = default;
};
/// The searcher wants no more trials.
struct SearcherDone {
  bool operator==(const SearcherDone&) const = default;
};
/// The searcher has had enough of the trial.
struct TrialPruned {
  int trial = 0;
  bool operator==(const TrialPruned&) const = default;
};
/// The driver is about to start the trial.
struct TrialStarted {
  int trial = 0;
  boost::json::object values = {};  // that a searcher has proposed; else the spec has them
  bool operator==(const TrialStarted&) const = default;
};
/// Rank 0 has reported the metric.
struct TrialReported {
  int trial = 0;
  double time = 0;  // the time attribute, or the number of the report
  double value = 0;
  int part = 0;  // of the trial; 0: its newest
  bool operator==(const TrialReported&) const = default;
};
/// The trial has committed a checkpoint with a report of the metric, and the driver has kept it for
/// others (`donors`).
struct TrialCheckpointed {
  int trial = 0;
  int part = 1;
  PbtCheckpoint scored = {};
  bool operator==(const TrialCheckpointed&) const = default;
};
/// The trial is about to begin anew as its next part, from a checkpoint of another one.
struct TrialExploited {
  int trial = 0;
  int part = 2;
  int from = 0;
  double time = 0;              // of the checkpoint
  std::string checkpoint = {};  // its name below `donors`
  boost::json::object values = {};
  bool operator==(const TrialExploited&) const = default;
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

/// Ask the searcher for the values of the next trial.
struct AskSearcher {
  int trial = 0;
  bool operator==(const AskSearcher&) const = default;
};
struct StartTrial {
  int trial = 0;
  boost::json::object values = {};  // as TrialStarted has them
  bool operator==(const StartTrial&) const = default;
};
struct StopTrial {
  int trial = 0;
  std::string why;
  bool operator==(const StopTrial&) const = default;
};
/// Let the trial's run end, and begin the trial's next part.
struct ExploitTrial {
  TrialExploited exploit = {};
  bool operator==(const ExploitTrial&) const = default;
};
/// Everything is done. A code other than 0: the sweep has failed, with this cause.
struct EndSearch {
  int code = 0;
  std::string cause = {};
  bool operator==(const EndSearch&) const = default;
};
using SearchAction = std::variant<AskSearcher, StartTrial, StopTrial, ExploitTrial, EndSearch>;

// ----

/// How many trials must fail alike, before any other end, for the sweep to be given up.
inline constexpr int kAlikeFailures = 3;

/// A trial as far as it is known.
struct TrialState {
  boost::json::object values = {};
  std::optional<TrialEnded> ended = {};
  bool stops = false;                // the scheduler or the searcher has had enough of it
  bool pruned = false;               // it was the searcher
  std::optional<double> time = {};   // of its newest report
  std::optional<double> value = {};  // the newest
  std::optional<double> best = {};   // finite
  std::optional<double> best_time = {};
  int part = 1;                             // how often it has begun: each part is a run of its own
  int best_part = 1;                        // that had the best value
  std::optional<TrialExploited> from = {};  // where the part began; none: at the beginning
};

class SearchController {
 public:
  explicit SearchController(SearchSpec spec);

  /// Return whether the scheduler takes this report into account, so that it must be in the journal
  /// before handle() is called.
  bool is_decisive(const TrialReported& report) const;

  /// Return whether the trial runs and has not been stopped by the search yet.
  bool may_stop(int trial) const;

  /// Return whether a checkpoint with a report of this time is to be kept for others, and told.
  bool wants_checkpoint(int trial, double time) const;
  /// Return the names of the kept checkpoints that may still be needed.
  std::set<std::string> needed_checkpoints() const;

  /// Only of the next trial: another one is passed over.
  void handle(const TrialProposed& proposed);
  void handle(const SearcherDone&) { searcher_done_ = true; }
  /// Only where may_have_more().
  void handle(const MoreTrials& more);
  void handle(const TrialPruned& pruned);
  void handle(const TrialStarted& started);
  /// Reports that a trial repeats after a restart change nothing.
  void handle(const TrialReported& report);
  /// Only of a trial that has not ended, and of its newest part.
  void handle(const TrialCheckpointed& checkpointed);
  void handle(const TrialExploited& exploited);
  void handle(const TrialEnded& ended);
  /// Take in what a report came to that the scheduler has not seen, or has seen before.
  void restore(const TrialReported& report);
  /// So many trials may run at once, for example because no more fit.
  void limit_trials(int trials) { fit_ = trials; }

  /// Return what to do now, each action once. StartTrial and ExploitTrial count only once
  /// handle() has been called of them.
  std::vector<SearchAction> next_actions();

  const SearchSpec& spec() const { return spec_; }
  /// Return whether more trials make sense: not of a grid, whose points are what they are.
  bool may_have_more() const;
  /// Return how many trials there will be, as far as is known.
  int trials_in_all() const;
  /// By number: numbers are given in order.
  const std::vector<TrialState>& trials() const { return trials_; }
  std::vector<int> running() const;
  /// Return the trials that have a value, the best first.
  std::vector<int> best_first() const;
  /// Return the trials that have ended and are not among those whose checkpoints are to be kept,
  /// in the order in which that turned out; none of them will be kept later.
  const std::vector<int>& trials_to_clear() const { return to_clear_; }
  /// Return the trial with the best value so far; failed and invalid ones do not count.
  std::optional<int> best() const;
  bool is_better(double a, double b) const;

 private:
  bool takes_time(const TrialReported& report) const;
  std::optional<EndSearch> end() const;
  void start_trials(std::vector<SearchAction>& actions);
  void keep_best(int ended);

  SearchSpec spec_;
  int fit_ = kConcurrentTrialsMax;
  std::vector<TrialState> trials_;
  std::vector<std::optional<double>> decided_;  // by trial: the time of the last decisive report
  std::vector<bool> asked_;                     // by trial: StopTrial has been returned
  int running_ = 0, invalid_ = 0;
  std::vector<TrialEnded> first_ends_;  // kAlikeFailures of them
  bool ended_ = false;                  // EndSearch has been returned
  bool searcher_done_ = false;
  int asked_for_ = 0;  // one more than the trial of the last AskSearcher
  std::optional<TrialProposed> proposed_ = {};
  std::optional<Asha> asha_;
  std::optional<MedianRule> median_;
  std::optional<Pbt> pbt_;
  std::map<int, TrialExploited> exploits_;  // by trial: to be returned
  std::vector<int> kept_;                   // that have ended, the best first: keep_trials of them
  std::vector<int> to_clear_;
};

/// Return how many trials there will be if so many have turned out to be invalid. `more`: of all
/// MoreTrials.
int trials_in_all(const SearchSpec& spec, int invalid, int more = 0);

/// Return whether two trials have failed for the same reason: names of ranks, nodes and numbers in
/// the causes do not count.
bool fail_alike(const TrialEnded& a, const TrialEnded& b);

}  // namespace train
