// How traind starts the supervisor of an attempt.
#pragma once

#include "daemon/core/node_agent.h"
#include "daemon/server/supervisor_files.h"
#include "daemon/supervisor/spawn.h"

namespace train {

/// Our own program, as `traind supervise`; it outlives us. cmd/traind reads the arguments.
SpawnRequest supervisor_command(const SpawnSupervisor& action, const SupervisorFiles& files,
                                const std::string& data_dir, int link_fd);

}  // namespace train
