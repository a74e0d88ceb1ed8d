// As whom the workers of a run shall run: what traind allows, what the spec asks for, and what the
// launcher's certificate says. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct WorkerUsers {
  std::string own;                   // as whom traind runs
  std::vector<std::string> allowed;  // --run-as; empty: as itself only
};

/// The user's name. `asked`: run_config.user, "" for no wish. `certificate`: whose the launcher's
/// is, where it has one. Who asks for nothing gets the first that is allowed. With certificates
/// and several allowed users everybody runs as the one whom the certificate names. Permission
/// where that is nobody who is allowed.
Result<std::string> worker_user(const WorkerUsers& users, const std::string& asked,
                                const std::optional<std::string>& certificate);

}  // namespace train
