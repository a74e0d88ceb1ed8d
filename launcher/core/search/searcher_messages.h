// What a sweep and its searcher, a program that proposes the trials' values, write to each other:
// one JSON object a line (docs/sweep.md, "A searcher of your own"). Pure; launcher/cluster/sweep
// has the process.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <variant>

#include "launcher/core/search/search_controller.h"
#include "lib/base/result.h"

namespace train {

/// The first message: what is searched, and all trials that there have been so far.
boost::json::object begin_message(const SearchController& search, const std::string& sweep);
boost::json::object ask_message(int trial);
boost::json::object report_message(const TrialReported& report);
/// `state`: of a trial that has ended.
boost::json::object tell_message(int trial, const TrialState& state);

using SearcherAnswer = std::variant<TrialProposed, SearcherDone, TrialPruned>;
/// Read what a searcher has written. `asked`: the trial that it was asked for and has not proposed
/// yet. The error says what is wrong.
Result<SearcherAnswer> read_answer(const boost::json::value& line, const SearchSpec& spec,
                                   std::optional<int> asked);

}  // namespace train
