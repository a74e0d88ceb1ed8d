#include "launcher/cluster/sweep/trial_events.h"

#include "launcher/core/search/sweep_records.h"
#include "lib/base/exit_code.h"

namespace train {
namespace {

std::string text_in(const boost::json::object& event, std::string_view name) {
  const auto* value = event.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

std::optional<std::uint64_t> number_in(const boost::json::object& event, std::string_view name) {
  const auto* value = event.if_contains(name);
  if (value == nullptr || !value->is_int64() || value->as_int64() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value->as_int64());
}

}  // namespace

std::optional<TrialEvent> trial_event(const boost::json::object& event) {
  const std::string kind = text_in(event, "event");
  if (kind == "run" || kind == "logged") {
    const auto bytes = number_in(event, kind == "run" ? "logged" : "bytes");
    return bytes ? std::optional<TrialEvent>(TrialLogged{*bytes}) : std::nullopt;
  }
  if (kind == "checkpoint")
    return TrialCommitted{text_in(event, "path"), number_in(event, "attempt").value_or(0),
                          number_in(event, "report_seq").value_or(0)};
  if (kind == "end")
    return TrialRunEnded{text_in(event, "cause"), code_in(event) == exit_code::kBadSpec};
  return std::nullopt;
}

}  // namespace train
