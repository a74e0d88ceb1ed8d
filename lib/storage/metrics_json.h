// This file converts metrics to JSON and back. JSON has no NaN and no infinity: such numbers become
// null, with their values stored beside, and are restored on reading. Whole numbers stay whole (1),
// others stay floats (1E0). Pure.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "lib/base/metrics.h"

namespace train {

struct MetricsJson {
  boost::json::object metrics;     // in order; of two with one name the later
  boost::json::object non_finite;  // {"loss": "nan", "peak": "inf", "low": "-inf"}
};
MetricsJson metrics_to_json(const Metrics& metrics);
/// Convert back. Members that no metric can be (lists, null without a mark) are left out.
Metrics metrics_from_json(const boost::json::object& metrics,
                          const boost::json::object& non_finite);

/// Replace NaN and infinities by null, at any depth, in values that nothing needs to restore
/// (metadata).
void drop_non_finite(boost::json::value& value);

}  // namespace train
