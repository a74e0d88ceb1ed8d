// How parts of a search are written as JSON: in the spec, the journal, messages, and for users.
#pragma once

#include <boost/json/object.hpp>
#include <optional>

#include "launcher/core/search/search_spec.h"

namespace train {

/// Return null if there is no number, or one that JSON lacks.
boost::json::value json_number(const std::optional<double>& number);

/// Return the parameter's values in the spec's own syntax: {"log_uniform": [a, b], "count": 4}.
boost::json::object json_range(const Parameter& parameter);

}  // namespace train
