// One line of a report log (metrics.jsonl):
//
//   {"rank":0,"attempt":0,"report_seq":1,"time":"2026-11-21T09:38:00.123456Z","checkpoint":false,"metrics":{"loss":0.5}}
//
// NaN and infinities are null (JSON has neither); characters that steer a terminal are escaped.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/metrics.h"

namespace train {

/// Append the report's line, with its newline. `time`: a text of format_utc() for its wall_us.
void append_report_line(std::string& out, const ReportRecord& report, std::string_view time);

}  // namespace train
