// How traind starts the supervisor of an attempt.
#pragma once

#include "daemon/core/node_agent.h"
#include "daemon/server/supervisor_files.h"
#include "daemon/supervisor/spawn.h"

namespace train {

/// Our own program, as `traind supervise`; it outlives us. cmd/traind reads the arguments. With an
/// account it is that user's process from its first instruction on, with nothing of our
/// environment that could be a secret.
SpawnRequest supervisor_command(const SpawnSupervisor& action, const SupervisorFiles& files,
                                const std::string& data_dir, int link_fd, int socket_fd,
                                const std::optional<UserAccount>& account);

}  // namespace train
