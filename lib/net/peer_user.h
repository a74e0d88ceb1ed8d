// This file checks whose process is at the other end of a Unix socket.
#pragma once

#include <unistd.h>

#include "lib/net/connection.h"

namespace train {

/// Check that the process at the other end of a Unix socket is `user`'s or root's, as the kernel
/// says (SO_PEERCRED). Permission if it belongs to another user, or the kernel cannot tell. A
/// socket's path alone proves nothing: whoever may write its folder can have made it. TCP tells
/// nothing of users, and passes.
Result<Unit> check_peer_user(const Connection& connection, uid_t user = ::geteuid());

}  // namespace train
