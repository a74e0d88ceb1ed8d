// Keeps the service manager (systemd) informed: when traind is ready, what it does, and that its
// event loop turns.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "daemon/core/node_agent.h"
#include "lib/base/notify.h"
#include "lib/net/notifier.h"

namespace train {

/// Return what `systemctl status` is to show: "2 runs, 3 supervisors". Pure.
std::string service_status_text(const NodeCounts& counts);

class ServiceStatus {
 public:
  using Counts = std::function<NodeCounts()>;

  /// `changed` is notified when the counts may have changed.
  ServiceStatus(ServiceManager manager, Notifier& changed, Counts counts)
      : manager_(std::move(manager)), changed_(changed), counts_(std::move(counts)) {}

  /// Say READY=1 once all supervisors that an earlier traind left are found, and WATCHDOG=1 at
  /// least twice in the manager's limit.
  asio::awaitable<void> run();
  /// Say that traind ends now. An end that is not announced looks like a failure.
  void stopping() const { manager_.tell("STOPPING=1"); }

 private:
  const ServiceManager manager_;
  Notifier& changed_;
  const Counts counts_;
};

}  // namespace train
