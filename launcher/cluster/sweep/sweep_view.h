// What people and programs are shown of a sweep: its table, from what is known of its trials.
#pragma once

#include <boost/json/object.hpp>

#include "launcher/core/search/search_controller.h"
#include "launcher/report/sweep_text.h"

namespace train {

/// Return "lr=0.001 layers=4": those that differ from trial to trial.
std::string parameters_text(const SearchSpec& spec, const boost::json::object& values);

SweepRow sweep_row(const SearchController& search, int trial);
SweepTable sweep_table_of(const SearchController& search);

/// Return a trial for programs; what is not known is null.
boost::json::object trial_json(const SearchController& search, int trial);

}  // namespace train
