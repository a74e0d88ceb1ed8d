// Builds the command with which traind starts the supervisor of an attempt.
#pragma once

#include <optional>

#include "daemon/core/node_agent.h"
#include "daemon/server/supervisor_files.h"
#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/user_account.h"

namespace train {

/// Return the command that starts our own program as `traind supervise`, which outlives us.
/// cmd/traind reads the arguments. With an account, the program first becomes that user, and its
/// environment contains none of our variables that could be secret.
SpawnRequest supervisor_command(const SpawnSupervisor& action, const SupervisorFiles& files,
                                const std::string& data_dir, int link_fd, int socket_fd,
                                const std::optional<UserAccount>& account);

/// Limit the cgroup of another user's attempt to the attempt's claim plus room for the supervisor,
/// whatever limits that supervisor sets for its workers. Do nothing for our own user.
void limit_attempt_of_user(const SupervisorFiles& files, const PrepareAttempt& message);

}  // namespace train
