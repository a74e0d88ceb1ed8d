// The supervisor is the parent of one attempt's workers on one node. It runs in a process of its
// own (`traind supervise`), so that it outlives a crash or an upgrade of traind. It answers to
// traind only; everything for the launcher goes through traind.
#pragma once

#include <signal.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/user_account.h"

namespace train {

/// The signals that the supervisor ignores from its first instruction on.
inline constexpr std::array kSupervisorIgnores{SIGPIPE, SIGHUP, SIGINT, SIGTERM, SIGUSR1};

struct SupervisorOptions {
  std::string run_id;
  Attempt attempt;
  int link_fd = -1;         // one end of a socket pair, the other is traind's
  int socket_fd = -1;       // bound by traind, not listening yet; a later traind finds us there
  std::string spool_dir;    // ours alone; removed at the end
  std::string data_dir;     // of the run on this node, for checkpoints without shared storage
  std::string cgroup_name;  // empty: none
  /// The user to become, if traind runs as root for it. Workers get our HOME, USER, LOGNAME and
  /// SHELL.
  std::optional<UserAccount> account;
  std::int64_t orphan_timeout_ms = 600000;
  int kept_fd = -1;  // a file with KeptWorkers, if this is a supervisor that begins anew; −1: none
  std::string build;
};

/// Return the command that starts a supervisor of our own program with these options. cmd/traind
/// reads the arguments.
std::vector<std::string> supervise_command(const SupervisorOptions& options);

/// Run until the launcher releases the attempt, or no launcher comes back in time. Return the
/// process's exit code.
int run_supervisor(const SupervisorOptions& options);

}  // namespace train
