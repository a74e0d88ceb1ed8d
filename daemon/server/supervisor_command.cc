#include "daemon/server/supervisor_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include "daemon/supervisor/supervisor.h"

namespace train {

SpawnRequest supervisor_command(const SpawnSupervisor& action, const SupervisorFiles& files,
                                const std::string& data_dir, int link_fd) {
  SpawnRequest request;
  request.argv = {"/proc/self/exe",
                  "supervise",
                  "--run",
                  action.key.run_id,
                  "--attempt",
                  fmt::format("{}", action.key.attempt.value),
                  "--link-fd",
                  fmt::format("{}", link_fd),
                  "--socket",
                  files.socket,
                  "--spool",
                  files.spool,
                  "--data",
                  data_dir,
                  "--cgroup",
                  files.cgroup,
                  "--orphan-timeout-ms",
                  fmt::format("{}", action.orphan_timeout_ms)};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const auto equals = text.find('='); equals != std::string::npos)
      request.env[text.substr(0, equals)] = text.substr(equals + 1);
  }
  request.inherit_fds = {link_fd};
  request.stderr_fd = STDERR_FILENO;
  request.die_with_parent = false;  // it outlives us
  request.rules.ignored_signals.assign(kSupervisorIgnores.begin(), kSupervisorIgnores.end());
  return request;
}

}  // namespace train
