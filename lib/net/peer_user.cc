#include "lib/net/peer_user.h"

#include <fmt/format.h>

namespace train {

Result<Unit> check_peer_user(const Connection& connection, uid_t user) {
  if (!connection.local_address().empty()) return Unit{};  // TCP
  TRY(const PeerCredentials peer, connection.credentials());
  if (peer.uid == user || peer.uid == 0) return Unit{};
  return Error{Errc::Permission,
               fmt::format("{} is a process of uid {}, neither of uid {} nor of root",
                           connection.peer(), peer.uid, user),
               "the socket belongs to another user's process: choose another one"};
}

}  // namespace train
