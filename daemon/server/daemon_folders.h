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

/// The folder of a user below one of ours (user_folder()), made where it is missing, in which he
/// alone may do what he likes; `folder`, which is made as well, lets others pass. Permission where
/// a folder above does not let him in.
Result<Unit> make_user_folder(const std::string& folder, const UserAccount& account);

/// Two daemons in one runtime folder would take each other's supervisors for their own:
/// AlreadyExists, with the pid of the other. The lock ends with this process.
Result<Unit> lock_runtime_folder(const std::string& runtime);

}  // namespace train
