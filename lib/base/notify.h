// Tells a service manager how this service is, as sd_notify(3) does for systemd's Type=notify: a
// datagram to the socket that the environment names. Without a manager, nothing is told.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"

namespace train {

class ServiceManager {
 public:
  /// Return the manager that the environment names, and remove its variables from the environment,
  /// so that processes that we start tell it nothing. Not thread-safe, as setenv(3) is not.
  static ServiceManager take_from_environment();

  /// Send lines such as "READY=1". Return false if there is no manager, or if it takes nothing.
  /// Never blocks.
  bool tell(std::string_view lines) const;
  /// Return how long the manager waits at most for the next "WATCHDOG=1"; nothing if it does not
  /// expect any of us.
  std::optional<Duration> watchdog() const { return watchdog_; }

 private:
  std::string socket_;  // empty: no manager
  std::optional<Duration> watchdog_;
};

}  // namespace train
