// This file converts metrics to JSON and back. JSON has no NaN and no infinity: such numbers become
// null, with their values stored separately, and are restored on reading. Integers stay integers
// (1), others stay floats (1E0). Bytes that are not UTF-8 become U+FFFD. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "lib/base/metrics.h"

namespace train {

struct MetricsJson {
  boost::json::object metrics;     // in order; if a name occurs twice, the later one
  boost::json::object non_finite;  // {"loss": "nan", "peak": "inf", "low": "-inf"}
};
MetricsJson metrics_to_json(const Metrics& metrics);
/// Convert back. Leaves out members that cannot be metrics (lists, null without an entry in
/// `non_finite`).
Metrics metrics_from_json(const boost::json::object& metrics,
                          const boost::json::object& non_finite);

/// Replace NaN and infinities by null, at any depth, in values that need not be restored
/// (metadata).
void drop_non_finite(boost::json::value& value);

}  // namespace train
