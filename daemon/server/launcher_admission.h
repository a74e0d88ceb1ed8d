// Decides whether a launcher may run something on this node, and as which user its workers run.
#pragma once

#include <string>
#include <vector>

#include "daemon/server/supervisors.h"
#include "daemon/server/worker_spaces.h"
#include "lib/base/result.h"
#include "lib/net/connection.h"
#include "lib/wire/daemon_messages.h"

namespace train {

class LauncherAdmission {
 public:
  /// `allowed`: the certificate names that --allow-launcher gives; empty: the whole cluster. All
  /// arguments must outlive this object.
  LauncherAdmission(const std::vector<std::string>& allowed, const WorkerSpaces& spaces,
                    const Supervisors& supervisors)
      : allowed_(allowed), spaces_(spaces), supervisors_(supervisors) {}

  /// Return the user that the run's workers run as. Permission, for the launcher to read: the run
  /// is another user's, this node does not admit the launcher, or not with that user.
  Result<std::string> admit(const Connection& link, const AttachRun& message) const;

 private:
  Result<Unit> check_owner(const Connection& link, const AttachRun& message) const;
  Result<Unit> check_allowed(const Connection& link) const;
  Result<std::string> user_for(const Connection& link, const AttachRun& message) const;

  const std::vector<std::string>& allowed_;
  const WorkerSpaces& spaces_;
  const Supervisors& supervisors_;
};

}  // namespace train
