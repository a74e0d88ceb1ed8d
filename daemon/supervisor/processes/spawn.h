// Starts a process and waits for its end, with Boost.Process v2 and pidfds. Uses clone3(2) to start
// it in a cgroup v2. Call it from the main thread: a child's PDEATHSIG is tied to the thread that
// forked it.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <map>
#include <string>
#include <vector>

#include "daemon/supervisor/core/worker_group.h"
#include "daemon/supervisor/limits/cgroup.h"
#include "daemon/supervisor/limits/process_rules.h"
#include "lib/base/user_account.h"
#include "lib/net/task.h"

namespace train {

/// Where programs are looked for if the environment has no PATH.
inline constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";

struct SpawnRequest {
  /// argv[0]: a path (relative to working_dir), or a name to find in env's PATH.
  std::vector<std::string> argv;
  std::string working_dir = {};                 // empty: ours
  std::map<std::string, std::string> env = {};  // the complete environment
  int stdout_fd = -1, stderr_fd = -1;           // −1: /dev/null; stdin always is
  std::vector<int> inherit_fds = {};            // kept open under the same number
  std::optional<Cgroup> cgroup = {};            // to start it in; none: ours
  bool die_with_parent = true;                  // PDEATHSIG KILL
  ProcessRules rules = {};
  std::optional<UserAccount> account = {};  // whose rights it gets, without cgroup; none: ours
};

/// Return the file that a command starts: a path (relative to `working_dir`; "": ours), or a name
/// to find in `path`, as $PATH has it. Errors as spawn_process().
Result<std::string> find_program(const std::string& name, const std::string& working_dir,
                                 const std::string& path);

/// Spawn a process into its own session. Errors say what the user can do: the command is not found
/// (NotFound), not executable (Permission), the folder is missing, a limit is hit.
Result<pid_t> spawn_process(asio::any_io_executor executor, const SpawnRequest& request);

/// A process that writes its output into two pipes. The caller owns our ends of them.
struct PipedProcess {
  pid_t pid = -1;
  int stdout_fd = -1, stderr_fd = -1;
};
Result<PipedProcess> spawn_piped(asio::any_io_executor executor, SpawnRequest request);

/// Wait for a child of ours to end, and reap it.
Task<WaitStatus> wait_for_end(asio::any_io_executor executor, pid_t pid);

}  // namespace train
