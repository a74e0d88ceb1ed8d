// What a sweep records in its journal, sweep.jsonl, and what a later driver makes of it. Pure;
// lib/storage/journal stores the records.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <variant>

#include "launcher/core/search/search_controller.h"

namespace train {

boost::json::object record_of(const TrialStarted& started, const boost::json::object& values);
boost::json::object record_of(const MoreTrials& more);
boost::json::object record_of(const SearcherDone& done);
boost::json::object record_of(const TrialPruned& pruned);
boost::json::object record_of(const TrialReported& report);
boost::json::object record_of(const TrialCheckpointed& checkpointed);
/// `state`: of the trial before that.
boost::json::object record_of(const TrialExploited& exploited, const TrialState& state);
/// `state`: what the trial's reports came to.
boost::json::object record_of(const TrialEnded& ended, const TrialState& state);

/// Take a record of the journal in. Return false if it says something that cannot be, for example
/// because somebody has edited the file; records of other kinds are passed over.
bool take_in(SearchController& search, const boost::json::object& record);

/// What a later driver finds of a child run that was begun and not ended, such as a trial's, once
/// no train-run has it any more.
struct ChildFolder {
  bool begun = false;            // its train-run got as far as the run's journal and spec
  std::optional<int> code = {};  // of its exit.json
};
enum class ResumeStep {
  Start,   // from the beginning: there is no run yet
  Resume,  // it goes on, from its newest checkpoint
  End,     // it has ended: record that
};
/// Decide how a later driver goes on with a trial.
ResumeStep resume_step(const ChildFolder& folder, bool stops);

/// Return how a trial has ended whose train-run exited with this code: 128 + a signal if it was
/// killed. `told`: the sweep told it to stop. Nothing: it has not come to an end, and can be
/// resumed.
std::optional<TrialEnd> end_of(int code, bool told);

/// Return the exit code that an `end` event, or exit.json, tells of. A rank that exits with 78 says
/// that its parameters make no sense, as a spec that is wrong does.
std::optional<int> code_in(const boost::json::object& end);

}  // namespace train
