// What is said of a run's event to a program or a web service (run_config.notify): the facts, and
// their forms. docs/notify.md describes them for users. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/report/summary.h"
#include "lib/base/metrics.h"
#include "lib/base/time.h"

namespace train {

enum class NotifiedEvent {
  Started,     // the first group of workers runs
  Restarted,   // another one runs
  Hung,        // ranks show no sign of life
  Checkpoint,  // one was committed
  Failed,      // the run has ended: no restart was left, or none would help
  Finished,
  Stopped,  // somebody asked for it
};
/// Return the name that run_config.notify has for it.
std::string_view to_string(NotifiedEvent event);

/// The longest text of a fact: of a cause, a metric.
inline constexpr std::size_t kFactBytesMax = 4u << 10;
inline constexpr std::size_t kNotifiedMetricsMax = 100;

struct Notification {
  NotifiedEvent event = NotifiedEvent::Started;
  std::uint64_t number = 0;  // of this launcher's notifications, from 1
  std::chrono::system_clock::time_point at = {};
  std::string run_id = {}, run = {}, path = {};  // its name and place
  std::string host = {};                         // the launcher's
  std::uint32_t attempt = 0;
  int world_size = 0, nnodes = 0;
  Duration duration{};                    // of the run until now
  std::string cause = {};                 // of Restarted, Hung, Failed, Stopped
  std::optional<std::int32_t> rank = {};  // the one that failed first, or hangs
  std::string node = {};
  std::optional<int> exit_code = {};                 // train-run's, at the run's end
  std::optional<CheckpointSummary> checkpoint = {};  // the newest one
  Metrics metrics = {};                              // rank 0's newest
  std::string resume_command = {};
};

/// Return one line for people: "run vit failed: rank 3 on n2 was killed by SIGSEGV".
std::string notification_text(const Notification& notification);
/// Return the facts as JSON, in one line. It begins with {"text":…}, which chat services show.
/// Secrets are redacted here, and in the next one.
std::string notification_json(const Notification& notification);
/// Return the facts as variables: TRAINRUN_EVENT, TRAINRUN_TEXT, …; unknown ones are "".
std::map<std::string, std::string> notification_environment(const Notification& notification);

/// Return what the summary of a run says of its end.
Notification end_notification(const RunSummary& summary);

}  // namespace train
