#include "lib/base/report_line.h"

#include "lib/base/json_text.h"

namespace train {

void append_report_line(std::string& out, const ReportRecord& report, std::string_view time) {
  out += R"({"rank":)";
  append_json_number(out, std::int64_t{report.rank});
  out += R"(,"attempt":)";
  append_json_number(out, std::int64_t{report.attempt});
  out += R"(,"report_seq":)";
  append_json_number(out, report.report_seq);
  out += R"(,"time":")";
  out += time;
  out += report.has_checkpoint ? R"(","checkpoint":true,"metrics":)"
                               : R"(","checkpoint":false,"metrics":)";
  append_json_object(out, report.metrics);
  out += "}\n";
}

}  // namespace train
