#include "lib/observe/stop_rules.h"

#include <fmt/format.h>

namespace train {
namespace {

std::optional<double> number_of(const MetricValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::nullopt;
}

}  // namespace

StopRules::StopRules(std::vector<StopRule> rules) {
  for (StopRule& rule : rules) watched_.push_back({std::move(rule)});
}

std::optional<std::string> StopRules::on_report(const ReportRecord& report) {
  if (report.rank != 0) return std::nullopt;
  std::optional<std::string> reason;
  for (Watched& watched : watched_) {
    for (const auto& [name, value] : report.metrics) {
      if (name != watched.rule.metric) continue;
      const auto number = number_of(value);
      if (!number && watched.seen == Seen::Never) watched.seen = Seen::NotANumber;
      if (!number) continue;
      watched.seen = Seen::Number;
      if (!reason && *number >= watched.rule.at_least) {  // never true for NaN
        reason =
            fmt::format("{} is {}, and stop asks for {}", name, *number, watched.rule.at_least);
      }
    }
  }
  return reason;
}

std::vector<std::string> StopRules::warnings() const {
  std::vector<std::string> texts;
  for (const Watched& watched : watched_) {
    switch (watched.seen) {
      case Seen::Never:
        texts.push_back(fmt::format("stop names the metric \"{}\", which rank 0 never reported",
                                    watched.rule.metric));
        break;
      case Seen::NotANumber:
        texts.push_back(
            fmt::format("stop names the metric \"{}\", which rank 0 never reported as a number",
                        watched.rule.metric));
        break;
      case Seen::Number:
        break;
    }
  }
  return texts;
}

}  // namespace train
