// The folders of a traind: nobody else's, and no other traind's.
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

/// Make them where they are missing, or take those that are there: whoever can write one of them,
/// or has made it before us, could have our sockets, and what we are to keep and remove. Permission
/// then, with what is wrong.
Result<Unit> take_folders(const DaemonFolders& folders);

/// Make user_folder(), which belongs to the user and is closed to everybody else, where it is
/// missing. `folder` is made as well, and other users may traverse it. Permission where a folder
/// above does not let the user in, or the user's folder belongs to somebody else.
Result<Unit> make_user_folder(const std::string& folder, const UserAccount& account);

/// Two daemons in one runtime folder would take each other's supervisors for their own:
/// AlreadyExists, with the pid of the other. The lock ends with this process.
Result<Unit> lock_runtime_folder(const std::string& runtime);

}  // namespace train
