// The traind that serves one user's runs on this machine, for those who come by ssh: finds it by
// its Unix socket, or starts one. That one ends with its last run, and so must outlive the session
// that started it. Calls block.
#pragma once

#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

/// How long it may take until traind listens.
inline constexpr Duration kUserDaemonLimit = seconds(20);

/// Return a connection to the traind of `runtime_dir`. If that is empty: to the one in this user's
/// default folder, if it listens on a Unix socket there, else to the one in the first of
/// user_daemon_dirs() where one listens. Start one if none listens, in the first folder that is
/// ours or that can be made. Errors: Unavailable, with what traind said; Permission if no folder,
/// or what listens in `runtime_dir`, is ours.
Result<FileDescriptor> connect_user_daemon(const std::string& runtime_dir, Duration limit);

/// Return the folders for its sockets: /tmp/trainrun-UID-ssh, because a login session may take
/// $XDG_RUNTIME_DIR with it, and the next one must find the same folder; then others, because
/// anybody may make that one first.
std::vector<std::string> user_daemon_dirs();

}  // namespace train
