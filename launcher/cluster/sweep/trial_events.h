// What a trial's train-run tells its sweep by the driver's socket (docs/driver.md). Pure.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace train {

/// Its metrics.jsonl has so many bytes that count.
struct TrialLogged {
  std::uint64_t bytes = 0;
  bool operator==(const TrialLogged&) const = default;
};
/// It has committed a checkpoint, with the report of this number in the attempt.
struct TrialCommitted {
  std::string path;
  std::uint64_t attempt = 0, report = 0;
  bool operator==(const TrialCommitted&) const = default;
};
struct TrialRunEnded {
  std::string cause;
  bool invalid = false;  // the parameters make no sense
  bool operator==(const TrialRunEnded&) const = default;
};
using TrialEvent = std::variant<TrialLogged, TrialCommitted, TrialRunEnded>;

/// Return what the event says; nothing if a sweep does not need it.
std::optional<TrialEvent> trial_event(const boost::json::object& event);

}  // namespace train
