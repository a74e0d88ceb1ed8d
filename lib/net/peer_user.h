// This file checks which user's process is at the other end of a Unix socket.
#pragma once

#include <unistd.h>

#include "lib/net/connection.h"

namespace train {

/// Check with the kernel (SO_PEERCRED) that the process at the other end of a Unix socket belongs
/// to `user` or root. Permission if it belongs to another user. A socket's path alone proves
/// nothing: anybody who may write its folder can have created it. TCP connections, which have no
/// user, pass.
Result<Unit> check_peer_user(const Connection& connection, uid_t user = ::geteuid());

}  // namespace train
