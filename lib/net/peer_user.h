// Whose process is at the other end of a Unix socket.
#pragma once

#include <unistd.h>

#include "lib/net/connection.h"

namespace train {

/// Unix sockets: the process at the other end is `user`'s or root's, as the kernel says
/// (SO_PEERCRED); Permission where it is another's, or cannot be asked. A socket's path alone says
/// nothing: whoever may write its folder can have made it. TCP says nothing of users, and passes.
Result<Unit> check_peer_user(const Connection& connection, uid_t user = ::geteuid());

}  // namespace train
