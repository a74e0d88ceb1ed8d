// Converts between the metrics that user code reports, a Dict that may be nested, and those that
// are sent, flat names with plain values. Pure.
#pragma once

#include <train/config.h>

#include "lib/base/metrics.h"

namespace train::sdk {

/// Turn nested dicts into dotted names ({"val": {"acc": 0.9}} is "val.acc"). In names and strings,
/// bytes that are not UTF-8 become U+FFFD: no checkpoint or log could hold them. Throws Failure for
/// a null, a list, or an empty or repeated name.
Metrics flatten(const Dict& metrics);
Dict to_dict(const Metrics& metrics);
/// Return "epoch=3 loss=0.25 note=\"warm-up\"", for a terminal.
std::string to_line(const Metrics& metrics);

}  // namespace train::sdk
