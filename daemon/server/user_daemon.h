// The traind that serves one user's runs on this machine, for those who come by ssh: finds it by
// its Unix socket, or starts one. That one ends with its last run, and so must outlive the session
// that started it. Calls block.
#pragma once

#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

/// How long it may take until traind listens.
inline constexpr Duration kUserDaemonLimit = seconds(20);

/// Return a connection to the traind of `runtime_dir`. If that is empty: to the one in this user's
/// default folder, if it listens on a Unix socket there, else to the one in user_daemon_dir().
/// Start one if none listens. Errors: Unavailable, with what traind said; Permission if the folder,
/// or what listens there, is not ours.
Result<FileDescriptor> connect_user_daemon(const std::string& runtime_dir, Duration limit);

/// Return the folder for sockets, /tmp/trainrun-UID-ssh: a login session may take
/// $XDG_RUNTIME_DIR with it, and the next one must find the same folder.
std::string user_daemon_dir();

}  // namespace train
