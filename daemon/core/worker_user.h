// Chooses the user that a run's workers run as, from what traind allows, what the spec asks for,
// and what the launcher's certificate says. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct WorkerUsers {
  std::string own;                   // the user that traind runs as
  std::vector<std::string> allowed;  // --run-as; empty: `own` only
};

/// Choose the user, by name. `asked`: run_config.user, or "" if the spec leaves it out.
/// `certificate`: the user that the launcher's certificate names, if it has one. A launcher that
/// names no user gets the first allowed one; with a certificate and several allowed users, it gets
/// the user that the certificate names. Errors: Permission, if traind does not allow that user.
Result<std::string> worker_user(const WorkerUsers& users, const std::string& asked,
                                const std::optional<std::string>& certificate);

}  // namespace train
