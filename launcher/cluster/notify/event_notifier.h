// Tells the programs and web services of run_config.notify about the run's events. Each rule has a
// thread and a queue of its own, so that one that is slow holds up nobody; events of one rule
// arrive in order. A failure is said once, until the rule works again.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cluster/notify/notification.h"
#include "launcher/core/job_spec.h"
#include "lib/base/result.h"

namespace train {

inline constexpr Duration kNotifyCommandMax = seconds(60);
inline constexpr Duration kWebhookTryMax = seconds(10);
inline constexpr int kWebhookTriesMax = 3;
inline constexpr Duration kWebhookPause = seconds(1);  // doubled before each further try
/// How long notifications may delay the run's end, all together.
inline constexpr Duration kNotifyEndMax = seconds(10);
/// What waits for a rule that is slow; beyond it, the oldest is dropped.
inline constexpr std::size_t kNotificationsQueuedMax = 100;

/// A rule with its secrets resolved.
struct NotifyTarget {
  std::vector<std::string> on = {};
  std::vector<std::string> command = {};  // or:
  std::string url = {};
  /// Return how messages name it: "./tell.sh", "the webhook at hooks.slack.com".
  std::string name() const;
};

/// Resolve the rules' secrets. `submitter`: the environment of whoever submitted the run.
Result<std::vector<NotifyTarget>> notify_targets(
    const std::vector<NotifyRule>& rules, const std::map<std::string, std::string>& submitter);

class EventNotifier {
 public:
  struct Options {
    std::string folder = {};                              // where commands start
    std::map<std::string, std::string> environment = {};  // of commands, beside the facts
    /// Says what failed. Called on threads of this object.
    std::function<void(const std::string&)> say = {};
  };
  EventNotifier(std::vector<NotifyTarget> targets, Options options);
  ~EventNotifier();  // gives up what is still to be delivered

  /// Return whether any rule wants the event: others need no facts.
  bool wants(NotifiedEvent event) const;
  /// Deliver this. Returns at once.
  void notify(Notification notification);
  /// Wait until everything is delivered, for at most `limit`; then give up the rest, and say so.
  /// Call it once, last. Blocks.
  void finish(Duration limit);

 private:
  class Worker;
  const Options options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::uint64_t count_ = 0;
};

}  // namespace train
