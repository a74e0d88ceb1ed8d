// Sets up the folders of a traind, and makes sure that they belong to no other user and to no other
// traind.
#pragma once

#include <string>

#include "lib/base/result.h"
#include "lib/base/user_account.h"

namespace train {

struct DaemonFolders {
  std::string runtime;  // sockets
  std::string spool;    // output on its way to the launcher
  std::string data;     // checkpoints without shared storage; made by supervisors
};

/// Make the runtime folder and the spool folder if they are missing, and check all three. Errors:
/// Permission, with the reason, if another user can write to one of them or made it before us: that
/// user could get at our sockets, and at the files that we are to keep and remove.
Result<Unit> take_folders(const DaemonFolders& folders);

/// Make user_folder() if it is missing. It belongs to the user and is closed to everybody else.
/// Make `folder` as well, and let other users traverse it. Errors: Permission, if a folder above
/// does not let the user in, or if the user's folder belongs to somebody else.
Result<Unit> make_user_folder(const std::string& folder, const UserAccount& account);

/// Lock the runtime folder: two daemons in it would take each other's supervisors for their own.
/// Errors: AlreadyExists, with the pid of the other daemon. The lock ends with this process.
Result<Unit> lock_runtime_folder(const std::string& runtime);

}  // namespace train
