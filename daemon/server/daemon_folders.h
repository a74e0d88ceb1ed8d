// Takes the folders of a traind, and makes sure that they are nobody else's and no other traind's.
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

/// Make the folders that are missing, and take those that are there. Permission, which says what is
/// wrong, if somebody else can write one of them, or made it before us: they could have our
/// sockets, and what we are to keep and remove.
Result<Unit> take_folders(const DaemonFolders& folders);

/// Make user_folder() if it is missing. It belongs to the user and is closed to everybody else.
/// Make `folder` as well, and let other users traverse it. Permission if a folder above does not
/// let the user in, or if the user's folder belongs to somebody else.
Result<Unit> make_user_folder(const std::string& folder, const UserAccount& account);

/// Lock the runtime folder: two daemons in it would take each other's supervisors for their own.
/// AlreadyExists, with the pid of the other daemon, if it is locked. The lock ends with this
/// process.
Result<Unit> lock_runtime_folder(const std::string& runtime);

}  // namespace train
