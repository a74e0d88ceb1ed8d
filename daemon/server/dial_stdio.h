// traind dial-stdio: joins its standard input and output to the traind of this user, for a launcher
// that comes by ssh. It ends with either side, and leaves traind and the workers alone.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace train {

/// Return the line, with its end, that comes before the first byte of traind. `ssh_connection`:
/// sshd's variable, or null. It names the address by which the launcher has reached this machine.
std::string dial_greeting(const char* ssh_connection);

/// Copy bytes between `in`/`out` and the socket until one side ends: the end of `in` closes the
/// socket once all that came before has been written to it. Blocks. An Error if poll(2) fails.
Result<Unit> join_streams(int in, int out, int socket);

/// Run the command. `runtime_dir`: see connect_user_daemon(). Return the process's exit code.
int run_dial_stdio(const std::string& runtime_dir);

}  // namespace train
