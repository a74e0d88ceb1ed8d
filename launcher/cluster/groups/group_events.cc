#include "launcher/cluster/groups/group_events.h"

namespace train {
namespace {

std::string text_in(const boost::json::object& event, std::string_view name) {
  const auto* value = event.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
}

AttemptFailed failed_attempt(const boost::json::object& event) {
  AttemptFailed failed{.cause = text_in(event, "cause")};
  const auto* ranks = event.if_contains("ranks");
  if (ranks == nullptr || !ranks->is_array() || ranks->as_array().empty() ||
      !ranks->as_array()[0].is_object())
    return failed;
  const boost::json::object& first = ranks->as_array()[0].as_object();  // the root cause
  const std::string kind = text_in(first, "kind");
  failed.by_itself = kind == "exited" || kind == "start_failed";
  const auto* code = first.if_contains("exit_code");
  // As for any run: 3 to 63 are the user's (lib/base/exit_code.h).
  if (code != nullptr && code->is_int64() && code->as_int64() >= 3 && code->as_int64() <= 63)
    failed.code = static_cast<int>(code->as_int64());
  return failed;
}

}  // namespace

std::optional<GroupEvent> group_event(const boost::json::object& event) {
  const std::string kind = text_in(event, "event");
  if (kind == "attempt") return AttemptBegan{};
  if (kind == "exception") return failed_attempt(event);
  if (kind == "end") return GroupRunEnded{text_in(event, "cause")};
  return std::nullopt;
}

}  // namespace train
