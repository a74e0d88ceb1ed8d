// What a replica group's train-run tells the one that has started it, by the driver's socket
// (docs/driver.md). Pure.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <variant>

namespace train {

/// The workers of an attempt run.
struct AttemptBegan {
  bool operator==(const AttemptBegan&) const = default;
};
struct AttemptFailed {
  std::string cause;
  bool by_itself = false;  // the rank that failed first ended with an error
  int code = 1;            // the run's exit code if this were its end
  bool operator==(const AttemptFailed&) const = default;
};
struct GroupRunEnded {
  std::string cause;
  bool operator==(const GroupRunEnded&) const = default;
};
using GroupEvent = std::variant<AttemptBegan, AttemptFailed, GroupRunEnded>;

/// Return what the event says; nothing if it does not matter to other groups.
std::optional<GroupEvent> group_event(const boost::json::object& event);

}  // namespace train
